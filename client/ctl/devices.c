#include "client/ctl/devices.h"

#include "pipeline/hlo/evaluator_device.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device.h"
#include "runtime/neuron/neuron.h"

void ctl_devices_register(void)
{
    rt_device_register(&cpu_device_ops);
    rt_device_register(&hlo_evaluator_device);
    rt_device_register(&rt_neuron_device);
}
