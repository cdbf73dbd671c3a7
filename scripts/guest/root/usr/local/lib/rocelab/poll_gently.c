/* Preloaded into perftest's bandwidth tests in virtual time (lab/rdma/perftest.py). ib_write_bw cannot wait for
 * events: it polls its completion queue without a pause, and emulating that costs the host more than the packets do.
 * A poll that finds nothing executes NOPs for 10 us here, which QEMU emulates ten times as fast.
 */
extern void *dlsym(void *library, const char *name);

#define RTLD_NEXT ((void *)-1)
#define ROUNDS 100

typedef int poll_cq(void *cq, int count, void *completions);

/* The beginning of struct ibv_context, whose functions programs call inline (infiniband/verbs.h). */
struct context {
	void *device;
	void *before[11];
	poll_cq *poll;
};

static poll_cq *poll_at_once;

static int poll_gently(void *cq, int count, void *completions)
{
	int found = poll_at_once(cq, count, completions);

	for (int round = 0; found == 0 && round < ROUNDS; round++)
		__asm__ volatile(".rept 100\n\tnop\n\t.endr");
	return found;
}

struct context *ibv_open_device(void *device)
{
	struct context *(*open)(void *) = dlsym(RTLD_NEXT, "ibv_open_device");
	struct context *context = open(device);

	if (context) {
		poll_at_once = context->poll;
		context->poll = poll_gently;
	}
	return context;
}
