/* banned.h: calls that nothing in neffd may make; included by every file through the compiler's command line. */
#ifndef NEFFD_BASE_BANNED_H
#define NEFFD_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok strtok_r atoi atol atoll atof gets system popen tmpnam mktemp

#endif
