/* devices.h: the devices that neffctl can execute on. */
#ifndef NEFFD_CLIENT_CTL_DEVICES_H
#define NEFFD_CLIENT_CTL_DEVICES_H

/* Registers what is linked into this program. Before any thread. */
void ctl_devices_register(void);

#endif
