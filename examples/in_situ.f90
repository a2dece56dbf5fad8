! in_situ.c in Fortran: a simulation that trains a network on its own fields while it runs.
!
!     mpif90 in_situ.f90 $(pkg-config --cflags --libs lockstep-fortran) -o in_situ
!     mpiexec -n 4 ./in_situ 2            two processes simulate, two train
!
! Heat spreads on a square grid, under a source that moves, in strips with halos. From the 5 x 5
! temperatures around a point the surrogate learns how much warmer it is a while later. Who trains does
! nothing else, and the simulation goes on meanwhile: it waits only if it is a whole field ahead. The hash
! is the same for any division of the processes, and is that of in_situ.c.
program in_situ
   use mpi
   use lockstep
   use, intrinsic :: iso_c_binding
   implicit none
   integer, parameter :: n = 64, stride = 10, fields = 30 ! the grid; steps between fields
   integer, parameter :: around = 2, patch = 2*around + 1, inner = n - 2*around, points = inner*inner
   integer, parameter :: batch = 256, batches = 10 ! for each field, of points drawn anew
   integer :: rank, processes, training, simulating, level, mine, ignored
   character(20) :: word

   call MPI_INIT_THREAD(MPI_THREAD_SERIALIZED, level, ignored)
   call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ignored)
   call MPI_COMM_SIZE(MPI_COMM_WORLD, processes, ignored)
   training = processes/2
   call get_command_argument(1, word)
   if (word /= '') read (word, *) training
   simulating = processes - training
   if (training < 1 .or. simulating < 1) then
      if (rank == 0) print '(a, i0, a, i0, a)', 'in_situ: of ', processes, ' processes ', training, ' cannot train'
      call MPI_FINALIZE(ignored)
      stop 2
   end if
   call MPI_COMM_SPLIT(MPI_COMM_WORLD, merge(1, 0, rank >= simulating), rank, mine, ignored)
   if (rank >= simulating) then
      call train(mine)
   else
      call simulate(mine)
   end if
   call MPI_COMM_FREE(mine, ignored)
   call MPI_FINALIZE(ignored)

contains

   ! Strips are columns here: they are what lies together in Fortran.
   pure integer function first_column(strip, strips)
      integer, intent(in) :: strip, strips
      first_column = n*strip/strips
   end function

   ! Column 0 and the one behind the last are the neighbours'; the rim is cold.
   subroutine simulate(comm)
      integer, intent(in) :: comm
      real(c_float), allocatable :: now(:, :), next(:, :), leaving(:, :)
      integer :: strip, strips, first, columns, i, k, field, step, request
      call MPI_COMM_RANK(comm, strip, ignored)
      call MPI_COMM_SIZE(comm, strips, ignored)
      first = first_column(strip, strips)
      columns = first_column(strip + 1, strips) - first
      allocate (now(0:n + 1, 0:columns + 1), next(n, columns), leaving(n, columns))
      now = 0
      do k = 1, columns
         do i = 1, n
            if (mod((first + k - 1)/8 + (i - 1)/8, 3) == 0) now(i, k) = 1
         end do
      end do
      request = MPI_REQUEST_NULL
      do field = 0, fields - 1
         call MPI_WAIT(request, MPI_STATUS_IGNORE, ignored)
         leaving = now(1:n, 1:columns)
         call MPI_ISEND(leaving, n*columns, MPI_REAL, simulating, field, MPI_COMM_WORLD, request, ignored)
         do step = field*stride, (field + 1)*stride - 1
            call exchange_halos(comm, strip, strips, columns, now)
            call advance(first, columns, step, now, next)
         end do
      end do
      call MPI_WAIT(request, MPI_STATUS_IGNORE, ignored)
   end subroutine

   subroutine exchange_halos(comm, strip, strips, columns, now)
      integer, intent(in) :: comm, strip, strips, columns
      real(c_float), intent(inout) :: now(0:n + 1, 0:columns + 1)
      integer :: left, right
      left = merge(strip - 1, MPI_PROC_NULL, strip > 0)
      right = merge(strip + 1, MPI_PROC_NULL, strip < strips - 1)
      call MPI_SENDRECV(now(:, 1), n + 2, MPI_REAL, left, 0, now(:, columns + 1), n + 2, MPI_REAL, right, 0, &
                        comm, MPI_STATUS_IGNORE, ignored)
      call MPI_SENDRECV(now(:, columns), n + 2, MPI_REAL, right, 1, now(:, 0), n + 2, MPI_REAL, left, 1, &
                        comm, MPI_STATUS_IGNORE, ignored)
   end subroutine

   subroutine advance(first, columns, step, now, next)
      integer, intent(in) :: first, columns, step
      real(c_float), intent(inout) :: now(0:n + 1, 0:columns + 1), next(n, columns)
      integer :: hot_column, hot_row, i, k
      hot_column = int(n/2 + n/4*cos(0.01d0*step)) - first + 1
      hot_row = int(n/2 + n/4*sin(0.01d0*step)) + 1
      do k = 1, columns
         do i = 1, n
            next(i, k) = now(i, k) + 0.2*(now(i, k - 1) + now(i, k + 1) + now(i - 1, k) + now(i + 1, k) &
                                          - 4*now(i, k))
         end do
      end do
      if (hot_column >= 1 .and. hot_column <= columns) next(hot_row, hot_column) = next(hot_row, hot_column) + 0.02
      now(1:n, 1:columns) = next
   end subroutine

   ! A failure of one ends all: who simulates would wait for ever.
   subroutine must(status)
      integer, intent(in) :: status
      if (status == LKS_OK) return
      print '(a)', 'in_situ: '//lks_error_message()
      call MPI_ABORT(MPI_COMM_WORLD, 1, ignored)
   end subroutine

   subroutine train(mpi_comm)
      integer, intent(in) :: mpi_comm
      type(lks_comm) :: comm
      type(lks_context) :: context
      type(lks_graph) :: graph
      type(lks_model) :: model
      type(lks_tensor) :: x
      real(c_float), allocatable :: before(:, :), field(:, :), around_it(:, :, :), change(:, :)
      real(c_double) :: off, still
      integer(c_int64_t) :: hash
      integer :: number, k
      allocate (before(n, n), field(n, n), around_it(patch, patch, points), change(1, points))
      call must(lks_comm_create(comm, mpi_comm=mpi_comm))
      call must(lks_context_create(context, seed=1_c_int64_t))
      call must(lks_graph_create(graph, context))
      x = lks_input(graph, [patch*patch])
      call lks_target(graph, sizes=[1])
      x = lks_layer(graph, lks_layer(graph, x, 'dense units=32'), 'tanh')
      x = lks_layer(graph, lks_layer(graph, x, 'dense units=1'), 'mse')
      call must(lks_model_compile(model, graph, x, batch, replicas=8, workers=1, optimizer='adam', comm=comm))
      call receive_field(comm, 0, field)
      do number = 1, fields - 1
         before = field
         call receive_field(comm, number, field)
         call make_samples(number, before, field, around_it, change)
         call judge(comm, model, around_it, change, off, still)
         if (lks_comm_rank(comm) == 0) print '(a, i2, a, f6.4, a, f6.4)', 'field ', number, ': off by ', off, &
            ', where it changes by ', still
         do k = 1, batch*batches, batch ! whole batches: each rank takes its part
            call must(lks_model_step(model, around_it(:, :, k:k + batch - 1), change(:, k:k + batch - 1), 0.01d0))
         end do
      end do
      call must(lks_model_hash(model, hash))
      if (lks_comm_rank(comm) == 0) print '(i0, a, i0, a, z16.16)', simulating, ' simulate, ', training, &
         ' train: hash ', hash
      call lks_model_destroy(model)
      call lks_graph_destroy(graph)
      call lks_context_destroy(context)
      call lks_comm_destroy(comm)
   end subroutine

   ! The strips come to the first that trains, and from it to all of them.
   subroutine receive_field(comm, number, field)
      type(lks_comm), intent(in) :: comm
      integer, intent(in) :: number
      real(c_float), intent(inout) :: field(n, n)
      integer :: strip, first, end
      do strip = 0, simulating - 1
         if (lks_comm_rank(comm) /= 0) exit
         first = first_column(strip, simulating)
         end = first_column(strip + 1, simulating)
         call MPI_RECV(field(:, first + 1:end), n*(end - first), MPI_REAL, strip, number, MPI_COMM_WORLD, &
                       MPI_STATUS_IGNORE, ignored)
      end do
      call must(lks_comm_broadcast(comm, 0, field))
   end subroutine

   ! Every inner point of two fields, in an order that the seed draws: what surrounded it, and its change.
   subroutine make_samples(number, before, field, around_it, change)
      integer, intent(in) :: number
      real(c_float), intent(in) :: before(n, n), field(n, n)
      real(c_float), intent(out) :: around_it(patch, patch, points), change(1, points)
      integer(c_int64_t) :: order(points), start(2)
      integer :: k, i, j
      call must(lks_partition([1d0], int(number, c_int64_t), order, start))
      do k = 1, points
         j = int(order(k))/inner + 1 ! the patch's corner
         i = int(mod(order(k), int(inner, c_int64_t))) + 1
         around_it(:, :, k) = before(i:i + patch - 1, j:j + patch - 1)
         change(1, k) = field(i + around, j + around) - before(i + around, j + around)
      end do
   end subroutine

   ! How far off the model is for a field that it has not seen, each rank for a part of its points; and how
   ! far somebody is who says that nothing changes.
   subroutine judge(comm, model, around_it, change, off, still)
      type(lks_comm), intent(in) :: comm
      type(lks_model), intent(in) :: model
      real(c_float), intent(in) :: around_it(patch, patch, points), change(1, points)
      real(c_double), intent(out) :: off, still
      type(lks_metrics) :: sum_of
      integer :: first, end
      first = points*lks_comm_rank(comm)/lks_comm_size(comm)
      end = points*(lks_comm_rank(comm) + 1)/lks_comm_size(comm)
      sum_of = lks_metrics()
      call must(lks_comm_agree(comm, lks_model_evaluate(model, around_it(:, :, first + 1:end), &
                                                        change(:, first + 1:end), sum_of)))
      call must(lks_comm_metrics(comm, sum_of))
      off = sqrt(lks_metrics_loss(sum_of))
      still = sqrt(sum(real(change, c_double)**2)/points)
   end subroutine

end program in_situ
