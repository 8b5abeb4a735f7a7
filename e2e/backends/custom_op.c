/* The operator acme:Frobnicate for ONNX Runtime: it doubles numbers, and aborts
 * the process at 666, as a broken library does. It needs no header of ONNX
 * Runtime: functions are taken from their places in its table, which never
 * change. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void *status;
typedef struct {
  const void *const *(*get_api)(uint32_t version);
} api_base;

enum { CREATE_DOMAIN = 26, DOMAIN_ADD = 27, ADD_DOMAIN = 28, DATA = 51, COUNT = 61, DIMS = 62, SHAPE = 65,
       INPUT = 90, OUTPUT = 91, RELEASE_SHAPE = 99 };
enum { FLOAT = 1, VERSION = 12 };

static const void *const *api;

static void *create(const void *op, const void *a, const void *info) { return malloc(1); }
static const char *name(const void *op) { return "Frobnicate"; }
static const char *provider(const void *op) { return NULL; }
static int type(const void *op, size_t index) { return FLOAT; }
static size_t one(const void *op) { return 1; }
static int required(const void *op, size_t index) { return 0; }

static void compute(void *kernel, void *context) {
  const void *in;
  void *out, *shape;
  float *from, *to;
  int64_t dims[8] = {0};
  size_t rank = 0, n = 1;
  ((status(*)(void *, size_t, const void **))api[INPUT])(context, 0, &in);
  ((status(*)(const void *, void **))api[SHAPE])(in, &shape);
  ((status(*)(const void *, size_t *))api[COUNT])(shape, &rank);
  ((status(*)(const void *, int64_t *, size_t))api[DIMS])(shape, dims, rank);
  ((void (*)(void *))api[RELEASE_SHAPE])(shape);
  for (size_t i = 0; i < rank; i++) n *= (size_t)dims[i];
  ((status(*)(void *, size_t, const int64_t *, size_t, void **))api[OUTPUT])(context, 0, dims, rank, &out);
  ((status(*)(const void *, void **))api[DATA])(in, (void **)&from);
  ((status(*)(void *, void **))api[DATA])(out, (void **)&to);
  for (size_t i = 0; i < n; i++) {
    if (from[i] == 666) abort();
    to[i] = 2 * from[i];
  }
}

static struct {
  uint32_t version;
  void *(*create)(const void *, const void *, const void *);
  const char *(*name)(const void *), *(*provider)(const void *);
  int (*input_type)(const void *, size_t);
  size_t (*inputs)(const void *);
  int (*output_type)(const void *, size_t);
  size_t (*outputs)(const void *);
  void (*compute)(void *, void *);
  void (*destroy)(void *);
  int (*input_kind)(const void *, size_t), (*output_kind)(const void *, size_t);
  void *later[32]; /* what later versions have; not read for VERSION */
} frobnicate = {VERSION, create, name, provider, type, one, type, one, compute, free, required, required, {0}};

status RegisterCustomOps(void *options, const api_base *base) {
  void *domain;
  api = base->get_api(VERSION);
  status failed = ((status(*)(const char *, void **))api[CREATE_DOMAIN])("acme", &domain);
  if (!failed) failed = ((status(*)(void *, const void *))api[DOMAIN_ADD])(domain, &frobnicate);
  if (!failed) failed = ((status(*)(void *, void *))api[ADD_DOMAIN])(options, domain);
  return failed;
}
