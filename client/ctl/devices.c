#include "client/ctl/devices.h"

#include "runtime/device.h"

void ctl_devices_register(void)
{
}
