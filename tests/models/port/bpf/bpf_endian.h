/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#define bpf_htons htons
#define bpf_ntohs ntohs
#define bpf_htonl htonl
#define bpf_ntohl ntohl
