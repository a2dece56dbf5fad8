/* Lockstep: synchronous data-parallel training, the same bits on any number of workers. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <lockstep/status.h>
#include <lockstep/context.h>
#include <lockstep/tensor.h>
#include <lockstep/graph.h>
#include <lockstep/optim.h>
#include <lockstep/data.h>
#include <lockstep/text.h>
#include <lockstep/comm.h>
#include <lockstep/model.h>
#include <lockstep/generator.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>
#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>
#include <lockstep/recipe.h>

#endif
