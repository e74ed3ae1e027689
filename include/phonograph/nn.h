/* SPDX-License-Identifier: MIT */
/* phonograph/nn.h: all of libphonograph_nn: tensors, tape, operators, random numbers, modules,
 * optimizers, gradient scaler, clipping, data loaders, files, DLPack. */
#ifndef PHONOGRAPH_NN_H
#define PHONOGRAPH_NN_H
#include <phonograph/clip_grad.h>
#include <phonograph/data_loader.h>
#include <phonograph/data_parallel.h>
#include <phonograph/dlpack.h>
#include <phonograph/grad_scaler.h>
#include <phonograph/graphed.h>
#include <phonograph/lr_schedule.h>
#include <phonograph/module.h>
#include <phonograph/module_copy.h>
#include <phonograph/module_state.h>
#include <phonograph/operators.h>
#include <phonograph/optimizer.h>
#include <phonograph/optimizer_kinds.h>
#include <phonograph/phonograph.h>
#include <phonograph/random.h>
#include <phonograph/tape.h>
#include <phonograph/tensor.h>
#include <phonograph/tensor_collectives.h>
#include <phonograph/tensor_file.h>
#include <phonograph/training.h>
#include <phonograph/values.h>
#endif
