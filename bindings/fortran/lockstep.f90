! Lockstep from Fortran: recipes, models on your own arrays, and ranks.
!
!     use lockstep
!     type(lks_recipe) :: recipe
!     status = lks_recipe_open(recipe, 'digits.yaml')
!     if (status == LKS_OK) status = lks_recipe_set(recipe, 'train.workers=2')
!     if (status == LKS_OK) status = lks_recipe_train(recipe)
!     if (status /= LKS_OK) print '(a)', lks_error_message()
!     call lks_recipe_close(recipe)
!
! Names, meaning, order of calls and bits are those of the C headers. What can fail is a function
! that returns a status, and lks_error_message() has the sentence. What create, open and compile make,
! destroy and close free, the last made first; what was never made is fine.
!
! Kinds     Samples and outputs are real(c_float), classes integer(c_int32_t) from 0 on, numbers of
!           samples, hashes and steps integer(c_int64_t), rates and losses real(c_double); the rest is
!           integer(c_int), the default integer.
! Shapes    Arrays are passed as they lie in memory, so the first index, which runs fastest in Fortran,
!           is C's last: C's [count][height][width][channels] is x(channels, width, height, count), and
!           the shape that lks_input() takes is that of one sample, [channels, width, height].
!           The last index of x, y and outputs counts samples; how a sample's own numbers are divided
!           into dimensions does not matter, but how many they are does: LKS_E_SHAPE.
! Threads   One at a time uses an object.
module lockstep
   use, intrinsic :: iso_c_binding
   implicit none
   private

   integer, parameter, public :: LKS_OK = 0, LKS_E_INVALID = 1, LKS_E_SHAPE = 2, LKS_E_UNSUPPORTED = 3, &
      LKS_E_STATE = 4, LKS_E_NOMEM = 5, LKS_E_IO = 6, LKS_E_FORMAT = 7, LKS_E_MISMATCH = 8, &
      LKS_E_DEVICE = 9, LKS_E_NUMERIC = 10, LKS_E_STOPPED = 11, LKS_E_BUG = 12, LKS_E_COMM = 13, &
      LKS_E_TIMEOUT = 14

   ! What C has as pointers to structs of its own. A communicator that was never created is one process.
   type, public :: lks_context
      type(c_ptr) :: handle = c_null_ptr
   end type
   type, public :: lks_graph
      type(c_ptr) :: handle = c_null_ptr
   end type
   type, public :: lks_tensor
      type(c_ptr) :: handle = c_null_ptr
   end type
   type, public :: lks_model
      type(c_ptr) :: handle = c_null_ptr
   end type
   type, public :: lks_recipe
      type(c_ptr) :: handle = c_null_ptr
   end type
   type, public :: lks_comm
      type(c_ptr) :: handle = c_null_ptr
   end type

   ! Exact sums over samples: evaluations add to it, so it begins as lks_metrics(). lks_metrics_loss() is
   ! the mean loss.
   type, bind(c), public :: lks_metrics
      integer(c_int64_t) :: samples = 0, correct = 0, not_finite = 0
      integer(c_int64_t) :: loss_high = 0, loss_low = 0, top5 = 0, counted = 0
   end type

   ! An array of samples as shim.c is given it: lksf_array.
   type, bind(c) :: passed
      type(c_ptr) :: data
      integer(c_int64_t) :: samples, elements
   end type

   public :: lks_error_message, lks_version
   public :: lks_context_create, lks_context_destroy
   public :: lks_graph_create, lks_graph_destroy, lks_input, lks_target, lks_layer
   public :: lks_model_compile, lks_model_destroy, lks_model_step, lks_model_evaluate, lks_model_predict
   public :: lks_model_hash, lks_weights_save, lks_weights_load, lks_metrics_loss
   public :: lks_recipe_open, lks_recipe_open_text, lks_recipe_set, lks_recipe_comm, lks_recipe_train
   public :: lks_recipe_close
   public :: lks_comm_create, lks_comm_destroy, lks_comm_rank, lks_comm_size, lks_comm_barrier
   public :: lks_comm_agree, lks_comm_broadcast, lks_comm_average, lks_comm_metrics, lks_comm_abort
   public :: lks_partition

   ! Samples x(..., count) and their targets: classes y(count), or numbers y(..., count).
   interface lks_model_step
      module procedure step_classes, step_numbers
   end interface
   interface lks_model_evaluate
      module procedure evaluate_classes, evaluate_numbers
   end interface
   ! An array of any shape, from rank `root` to all.
   interface lks_comm_broadcast
      module procedure broadcast_float, broadcast_double, broadcast_int32, broadcast_int64
   end interface

   interface
      function c_strlen(text) bind(c, name='strlen')
         import; type(c_ptr), value :: text; integer(c_size_t) :: c_strlen
      end function
      function c_error_message() bind(c, name='lksf_error_message')
         import; type(c_ptr) :: c_error_message
      end function
      function c_version() bind(c, name='lks_version')
         import; type(c_ptr) :: c_version
      end function
      function c_context_create(out, device, seed) bind(c, name='lksf_context_create')
         import; type(c_ptr), intent(out) :: out; character(c_char), intent(in) :: device(*)
         integer(c_int64_t), value :: seed; integer(c_int) :: c_context_create
      end function
      subroutine c_context_destroy(context) bind(c, name='lks_context_destroy')
         import; type(c_ptr), value :: context
      end subroutine
      function c_graph_create(out, context) bind(c, name='lks_graph_create')
         import; type(c_ptr), intent(out) :: out; type(c_ptr), value :: context
         integer(c_int) :: c_graph_create
      end function
      subroutine c_graph_destroy(graph) bind(c, name='lks_graph_destroy')
         import; type(c_ptr), value :: graph
      end subroutine
      function c_input(graph, sizes, count) bind(c, name='lksf_input')
         import; type(c_ptr), value :: graph; integer(c_int64_t), intent(in) :: sizes(*)
         integer(c_int), value :: count; type(c_ptr) :: c_input
      end function
      function c_target(graph, classes, sizes, count) bind(c, name='lksf_target')
         import; type(c_ptr), value :: graph; integer(c_int64_t), value :: classes
         integer(c_int64_t), intent(in) :: sizes(*); integer(c_int), value :: count
         type(c_ptr) :: c_target
      end function
      function c_graph_line(graph, x, line) bind(c, name='lks_graph_line')
         import; type(c_ptr), value :: graph, x; character(c_char), intent(in) :: line(*)
         type(c_ptr) :: c_graph_line
      end function
      function c_model_compile(out, graph, loss, sizes, optimizer, momentum, weight_decay, comm) &
         bind(c, name='lksf_model_compile')
         import; type(c_ptr), intent(out) :: out; type(c_ptr), value :: graph, loss, comm
         integer(c_int64_t), intent(in) :: sizes(*); character(c_char), intent(in) :: optimizer(*)
         real(c_double), intent(in), optional :: momentum, weight_decay
         integer(c_int) :: c_model_compile
      end function
      subroutine c_model_destroy(model) bind(c, name='lks_model_destroy')
         import; type(c_ptr), value :: model
      end subroutine
      function c_model_step(model, x, y, classes, lr, metrics) bind(c, name='lksf_model_step')
         import; type(c_ptr), value :: model; type(passed), intent(in) :: x, y
         logical(c_bool), value :: classes; real(c_double), value :: lr
         type(lks_metrics), intent(out), optional :: metrics; integer(c_int) :: c_model_step
      end function
      function c_model_evaluate(model, x, y, classes, sum) bind(c, name='lksf_model_evaluate')
         import; type(c_ptr), value :: model; type(passed), intent(in) :: x, y
         logical(c_bool), value :: classes; type(lks_metrics), intent(inout) :: sum
         integer(c_int) :: c_model_evaluate
      end function
      function c_model_predict(model, x, out) bind(c, name='lksf_model_predict')
         import; type(c_ptr), value :: model; type(passed), intent(in) :: x, out
         integer(c_int) :: c_model_predict
      end function
      function c_model_hash(model, hash) bind(c, name='lks_model_hash')
         import; type(c_ptr), value :: model; integer(c_int64_t), intent(out) :: hash
         integer(c_int) :: c_model_hash
      end function
      function c_weights_save(model, path) bind(c, name='lks_weights_save')
         import; type(c_ptr), value :: model; character(c_char), intent(in) :: path(*)
         integer(c_int) :: c_weights_save
      end function
      function c_weights_load(model, path) bind(c, name='lks_weights_load')
         import; type(c_ptr), value :: model; character(c_char), intent(in) :: path(*)
         integer(c_int) :: c_weights_load
      end function
      function lks_metrics_loss(metrics) bind(c, name='lks_metrics_loss')
         import; type(lks_metrics), intent(in) :: metrics; real(c_double) :: lks_metrics_loss
      end function
      function c_recipe_open(out, path) bind(c, name='lks_recipe_open')
         import; type(c_ptr), intent(out) :: out; character(c_char), intent(in) :: path(*)
         integer(c_int) :: c_recipe_open
      end function
      function c_recipe_open_text(out, name, text) bind(c, name='lks_recipe_open_text')
         import; type(c_ptr), intent(out) :: out; type(c_ptr), value :: name
         character(c_char), intent(in) :: text(*); integer(c_int) :: c_recipe_open_text
      end function
      subroutine c_recipe_close(recipe) bind(c, name='lks_recipe_close')
         import; type(c_ptr), value :: recipe
      end subroutine
      function c_recipe_set(recipe, assignment) bind(c, name='lks_recipe_set')
         import; type(c_ptr), value :: recipe; character(c_char), intent(in) :: assignment(*)
         integer(c_int) :: c_recipe_set
      end function
      subroutine c_recipe_comm(recipe, comm) bind(c, name='lks_recipe_comm')
         import; type(c_ptr), value :: recipe, comm
      end subroutine
      function c_recipe_train(recipe, hash, step) bind(c, name='lksf_recipe_train')
         import; type(c_ptr), value :: recipe
         integer(c_int64_t), intent(out), optional :: hash, step; integer(c_int) :: c_recipe_train
      end function
      function c_comm_create(out, transport, mpi_comm, timeout_s, verify) bind(c, name='lksf_comm_create')
         import; type(c_ptr), intent(out) :: out; character(c_char), intent(in) :: transport(*)
         integer(c_int), intent(in), optional :: mpi_comm; real(c_double), value :: timeout_s
         logical(c_bool), value :: verify; integer(c_int) :: c_comm_create
      end function
      subroutine c_comm_destroy(comm) bind(c, name='lks_comm_destroy')
         import; type(c_ptr), value :: comm
      end subroutine
      function c_comm_rank(comm) bind(c, name='lks_comm_rank')
         import; type(c_ptr), value :: comm; integer(c_int) :: c_comm_rank
      end function
      function c_comm_size(comm) bind(c, name='lks_comm_size')
         import; type(c_ptr), value :: comm; integer(c_int) :: c_comm_size
      end function
      function c_comm_barrier(comm) bind(c, name='lks_comm_barrier')
         import; type(c_ptr), value :: comm; integer(c_int) :: c_comm_barrier
      end function
      function c_comm_agree(comm, mine) bind(c, name='lks_comm_agree')
         import; type(c_ptr), value :: comm; integer(c_int), value :: mine; integer(c_int) :: c_comm_agree
      end function
      function c_comm_broadcast(comm, root, array, bytes) bind(c, name='lksf_comm_broadcast')
         import; type(c_ptr), value :: comm, array; integer(c_int), value :: root
         integer(c_size_t), value :: bytes
         integer(c_int) :: c_comm_broadcast
      end function
      function c_comm_average(comm, array, count, weight) bind(c, name='lksf_comm_average')
         import; type(c_ptr), value :: comm, array
         integer(c_int64_t), value :: count; real(c_double), value :: weight
         integer(c_int) :: c_comm_average
      end function
      function c_comm_metrics(comm, sum) bind(c, name='lks_comm_metrics')
         import; type(c_ptr), value :: comm; type(lks_metrics), intent(inout) :: sum
         integer(c_int) :: c_comm_metrics
      end function
      function c_partition(samples, fractions, parts, seed, order, start, starts) &
         bind(c, name='lksf_partition')
         import; integer(c_int64_t), value :: samples, seed, starts; real(c_double), intent(in) :: fractions(*)
         integer(c_int), value :: parts; integer(c_int64_t), intent(out) :: order(*), start(*)
         integer(c_int) :: c_partition
      end function
      subroutine c_comm_abort(comm, code) bind(c, name='lks_comm_abort')
         import; type(c_ptr), value :: comm; integer(c_int), value :: code
      end subroutine
   end interface

contains

   include 'objects.inc'
   include 'ranks.inc'

end module lockstep
