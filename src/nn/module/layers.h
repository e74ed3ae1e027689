/* SPDX-License-Identifier: MIT */
/* nn/module/layers.h: how layers begin: their parameters, and the tape that fills them. */
#ifndef PH_NN_MODULE_LAYERS_H
#define PH_NN_MODULE_LAYERS_H
#include <phonograph/module.h>

/* A parameter of a layer: an uninitialised leaf. */
ph_status ph__layer_tensor(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* A tape on the device's default stream, for what a layer starts from; finish waits for it,
 * whatever status is, and gives the first failure. */
ph_status ph__layer_begin(ph_tape **tape, ph_device *device, ph_generator *generator);
ph_status ph__layer_finish(ph_tape *tape, ph_status status, const char *call);
/* Of a wait for the device, which captures refuse: a failure says which call waits. Gives
 * status. */
ph_status ph__layer_waited(ph_status status, const char *call);
#endif
