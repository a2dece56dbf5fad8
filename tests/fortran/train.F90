! What the test of the Fortran module runs: train CASE [ARGUMENT]
!   arrays       trains a small net on arrays, saves, loads, predicts; prints its hash
!   numbers      the same for targets that are numbers
!   recipe FILE  the recipe in a few lines; prints the hash
!   errors       what is refused says why
! With LKT_MPI it starts MPI itself, and its ranks train one model.
program train
#ifdef LKT_MPI
   use mpi
#endif
   use lockstep
   use, intrinsic :: iso_c_binding
   implicit none
   integer, parameter :: width = 4, height = 3, samples = 120, batch = 40, classes = 5
   type(lks_comm) :: comm
   character(200) :: word, argument
   integer :: failed = 0

   call get_command_argument(1, word)
   call get_command_argument(2, argument)
   call begin_ranks()
   select case (word)
   case ('arrays'); call from_arrays()
   case ('numbers'); call from_numbers()
   case ('recipe'); call from_recipe()
   case ('errors'); call refused()
   case default; stop 2
   end select
   call end_ranks()
   if (failed /= 0) stop 1

contains

   subroutine begin_ranks()
#ifdef LKT_MPI
      integer :: level, ignored
      real(c_float) :: mean(2)
      integer(c_int64_t) :: sent(3)
      call MPI_INIT_THREAD(MPI_THREAD_SERIALIZED, level, ignored)
      call must(lks_comm_create(comm, mpi_comm=MPI_COMM_WORLD, timeout_s=30d0))
      mean = [real(lks_comm_rank(comm), c_float), 1.0]
      call must(lks_comm_average(comm, mean, merge(3d0, 1d0, lks_comm_rank(comm) == 1)))
      call expect(lks_comm_size(comm) /= 2 .or. all(mean == [0.75, 1.0]), 'average')
      sent = 7_c_int64_t*lks_comm_rank(comm)
      call must(lks_comm_broadcast(comm, lks_comm_size(comm) - 1, sent))
      call expect(all(sent == 7_c_int64_t*(lks_comm_size(comm) - 1)), 'broadcast')
      call must(lks_comm_barrier(comm))
      call expect(lks_comm_agree(comm, merge(LKS_E_IO, LKS_OK, lks_comm_rank(comm) == 1)) == &
                  merge(LKS_E_IO, LKS_OK, lks_comm_size(comm) > 1), 'agree')
#endif
   end subroutine

   subroutine end_ranks()
#ifdef LKT_MPI
      integer :: ignored
      call lks_comm_destroy(comm)
      call MPI_FINALIZE(ignored)
#endif
   end subroutine

   subroutine must(status)
      integer, intent(in) :: status
      if (status == LKS_OK) return
      print '(a)', 'failed: '//lks_error_message()
      stop 1
   end subroutine

   subroutine expect(well, what)
      logical, intent(in) :: well
      character(*), intent(in) :: what
      if (well) return
      print '(a)', 'not as expected: '//what
      failed = 1
   end subroutine

   subroutine say(what, hash)
      character(*), intent(in) :: what
      integer(c_int64_t), intent(in) :: hash
      if (lks_comm_rank(comm) == 0) print '(a, z16.16)', what//' ', hash
   end subroutine

   subroutine make_samples(x, y)
      real(c_float), intent(out) :: x(width, height, samples)
      integer(c_int32_t), intent(out) :: y(samples)
      integer :: i, j, k
      do k = 1, samples
         do j = 1, height
            do i = 1, width
               x(i, j, k) = real(mod((k - 1)*(4*(j - 1) + i) + 3*(j - 1), 17))/16
            end do
         end do
         y(k) = int(mod(k - 1, classes), c_int32_t)
      end do
   end subroutine

   subroutine make_model(context, graph, model)
      type(lks_context), intent(out) :: context
      type(lks_graph), intent(out) :: graph
      type(lks_model), intent(out) :: model
      type(lks_tensor) :: x
      call must(lks_context_create(context, seed=3_c_int64_t))
      call must(lks_graph_create(graph, context))
      x = lks_input(graph, [width*height])
      call lks_target(graph, classes=classes)
      x = lks_layer(graph, x, 'dense units=16')
      x = lks_layer(graph, x, 'relu')
      x = lks_layer(graph, x, 'dense units=5')
      x = lks_layer(graph, x, 'cross_entropy')
      call must(lks_model_compile(model, graph, x, batch, replicas=4, workers=1, optimizer='adam', &
                                  weight_decay=0.001d0, comm=comm))
   end subroutine

   subroutine from_arrays()
      type(lks_context) :: context(2)
      type(lks_graph) :: graph(2)
      type(lks_model) :: model(2)
      type(lks_metrics) :: metrics, sum
      real(c_float) :: x(width, height, samples), out(classes, samples), again(classes, samples)
      integer(c_int32_t) :: y(samples)
      integer(c_int64_t) :: hash
      integer :: k, last, epoch
      call make_samples(x, y)
      do k = 1, 2
         call make_model(context(k), graph(k), model(k))
      end do
      do epoch = 1, 10
         do k = 1, samples, batch
            call must(lks_model_step(model(1), x(:, :, k:k + batch - 1), y(k:k + batch - 1), 0.01d0, metrics))
         end do
      end do
      call expect(metrics%samples == batch .and. lks_metrics_loss(metrics) > 0, 'metrics of a step')
      sum = lks_metrics()
      do k = 1, samples, 50 ! any count; each rank all of them
         last = min(k + 49, samples)
         call must(lks_model_evaluate(model(1), x(:, :, k:last), y(k:last), sum))
      end do
      call must(lks_comm_metrics(comm, sum))
      call expect(sum%samples == samples*lks_comm_size(comm), 'samples of an evaluation')
      call must(lks_weights_save(model(1), argument))
      call must(lks_weights_load(model(2), argument))
      call must(lks_model_predict(model(1), x, out))
      call must(lks_model_predict(model(2), x, again))
      call expect(all(out == again) .and. any(out /= 0), 'prediction of what was loaded')
      call expect(count(maxloc(out, 1) - 1 == y)*int(lks_comm_size(comm), c_int64_t) == sum%correct, &
                  'classes as predicted and as counted')
      call must(lks_model_hash(model(1), hash))
      call say('arrays', hash)
      do k = 1, 2
         call lks_model_destroy(model(k))
         call lks_graph_destroy(graph(k))
         call lks_context_destroy(context(k))
      end do
   end subroutine

   subroutine from_numbers()
      type(lks_context) :: context
      type(lks_graph) :: graph
      type(lks_model) :: model
      type(lks_tensor) :: image
      type(lks_metrics) :: sum
      real(c_float) :: x(width, height, samples), y(2, samples)
      integer(c_int32_t) :: unused(samples)
      integer(c_int64_t) :: hash
      integer :: k
      call make_samples(x, unused)
      y(1, :) = x(1, 1, :)
      y(2, :) = x(4, 3, :) - x(2, 1, :)
      call must(lks_context_create(context, seed=3_c_int64_t, device='cpu'))
      call must(lks_graph_create(graph, context))
      image = lks_input(graph, [1, width, height]) ! C's height, width, channels
      call lks_target(graph, sizes=[2])
      image = lks_layer(graph, image, 'conv2d filters=3 kernel=3x3 padding=1')
      image = lks_layer(graph, lks_layer(graph, image, 'tanh'), 'flatten')
      image = lks_layer(graph, lks_layer(graph, image, 'dense units=2'), 'mse')
      call must(lks_model_compile(model, graph, image, batch, optimizer='sgd', momentum=0.9d0, comm=comm, &
                                  workers=1))
      do k = 1, samples, batch
         call must(lks_model_step(model, x(:, :, k:k + batch - 1), y(:, k:k + batch - 1), 0.1d0))
      end do
      sum = lks_metrics()
      call must(lks_model_evaluate(model, x, y, sum))
      call expect(sum%samples == samples .and. lks_metrics_loss(sum) < 1, 'loss of numbers')
      call expect(lks_model_evaluate(model, x, y(:, :7), sum) == LKS_E_SHAPE, 'another count')
      print '(a)', lks_error_message()
      call must(lks_model_hash(model, hash))
      call say('numbers', hash)
      call lks_model_destroy(model)
      call lks_graph_destroy(graph)
      call lks_context_destroy(context)
   end subroutine

   subroutine from_recipe()
      type(lks_recipe) :: recipe
      integer(c_int64_t) :: hash, step
      integer :: status
      status = lks_recipe_open(recipe, argument)
      call lks_recipe_comm(recipe, comm)
      if (status == LKS_OK) status = lks_recipe_set(recipe, 'train.steps=5')
      if (status == LKS_OK) status = lks_recipe_train(recipe, hash, step)
      call must(status)
      call lks_recipe_close(recipe)
      call expect(step == 5, 'steps of the recipe')
      call say('recipe', hash)
   end subroutine

   subroutine refused()
      type(lks_context) :: context
      type(lks_graph) :: graph
      type(lks_model) :: model
      type(lks_tensor) :: x
      type(lks_recipe) :: recipe
      call expect(lks_recipe_open(recipe, 'nowhere.yaml') == LKS_E_IO, 'a file that is not there')
      print '(a)', lks_error_message()
      call lks_recipe_close(recipe)
      call expect(lks_recipe_open_text(recipe, 'train: {batch_size: two}') == LKS_E_INVALID, 'a key')
      print '(a)', lks_error_message()
      call lks_recipe_close(recipe)
      call must(lks_context_create(context))
      call must(lks_graph_create(graph, context))
      x = lks_layer(graph, lks_input(graph, [4]), 'mse')
      call expect(lks_model_compile(model, graph, x, 8, optimizer='best') == LKS_E_INVALID, 'an optimizer')
      print '(a)', lks_error_message()
      x = lks_layer(graph, x, 'dense units=none')
      call expect(lks_model_compile(model, graph, x, 8) == LKS_E_INVALID, 'a layer')
      print '(a)', lks_error_message()
      call lks_model_destroy(model) ! was never made
      call lks_graph_destroy(graph)
      call lks_context_destroy(context)
      call other_sizes()
      call expect(lks_comm_create(comm, mpi_comm=0) == LKS_E_COMM, 'a communicator without MPI')
      print '(a)', lks_error_message()
   end subroutine

   ! Arrays whose last extent is right, and that have too few numbers all the same, or too many.
   subroutine other_sizes()
      type(lks_context) :: context
      type(lks_graph) :: graph
      type(lks_model) :: model
      type(lks_metrics) :: sum
      real(c_float) :: x(width, height, samples), out(classes, samples), &
         large(classes + 1, samples)
      integer(c_int32_t) :: y(samples)
      integer(c_int64_t) :: order(samples), start(2)
      call make_samples(x, y)
      out = 0
      call make_model(context, graph, model)
      call refuse(lks_model_step(model, x(:3, :, :batch), y(:batch), 0.01d0), 'a step of small samples')
      call refuse(lks_model_step(model, x(:, 1, 1), y(:4), 0.01d0), 'a step of one sample without its count')
      call refuse(lks_model_evaluate(model, x(:, :2, :), y, sum), 'an evaluation of small samples')
      call refuse(lks_model_predict(model, x(1, :, :), out), 'a prediction from small samples')
      call refuse(lks_model_predict(model, x, out(:4, :)), 'a prediction of small outputs')
      call refuse(lks_model_predict(model, x, large), 'a prediction of large outputs')
      call expect(lks_model_evaluate(model, x, x(:, 1, :), sum) == LKS_E_SHAPE, 'numbers where classes are')
      print '(a)', lks_error_message()
      call expect(lks_model_evaluate(model, x, x(1, 1, :), sum) == LKS_E_INVALID, 'a number for each class')
      print '(a)', lks_error_message()
      call expect(sum%samples == 0 .and. all(out == 0), 'nothing of what was refused')
      call refuse(lks_partition([1d0, 1d0], 3_c_int64_t, order, start), 'a partition without its last end')
      call lks_model_destroy(model)
      call lks_graph_destroy(graph)
      call lks_context_destroy(context)
   end subroutine

   subroutine refuse(status, what)
      integer, intent(in) :: status
      character(*), intent(in) :: what
      call expect(status == LKS_E_SHAPE, what)
      print '(a)', lks_error_message()
   end subroutine

end program train
