package onnxruntime

import (
	"maps"
	"strings"
	"testing"
	"unsafe"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// setSessionLogSeverity is the place of a function in the library's table that
// only this test needs.
const setSessionLogSeverity = 22

// TestParametersReachTheLibrary reads what ONNX Runtime itself says of the
// options that it makes a session with.
func TestParametersReachTheLibrary(t *testing.T) {
	d, log := open(t, nil)
	for _, c := range []struct {
		parameters map[string]string
		json       string
		want       []string
	}{
		{nil, `{}`, []string{"execution_mode:0", "graph_optimization_level:4", "enable_mem_pattern:1", "enable_cpu_mem_arena:1"}},
		{map[string]string{"execution_mode": "1"}, `{}`, []string{"execution_mode:1"}},
		{
			map[string]string{"enable_mem_arena": "0", "enable_mem_pattern": "false"},
			`{}`,
			[]string{"enable_mem_pattern:0", "enable_cpu_mem_arena:0"},
		},
		{map[string]string{"intra_op_thread_count": "3", "inter_op_thread_count": "2", "execution_mode": "1"}, `{}`, []string{
			"intra_op_param:OrtThreadPoolParams { thread_pool_size: 3 ", "inter_op_param:OrtThreadPoolParams { thread_pool_size: 2 ",
		}},
		{map[string]string{"session.use_env_allocators": "1", "session.intra_op.allow_spinning": "1"}, `{}`, []string{
			"session.use_env_allocators: 1", "session.intra_op.allow_spinning: 1",
		}},
		{nil, `{"optimization":{"graph":{"level":-1}}}`, []string{"graph_optimization_level:1"}},
		{nil, `{"optimization":{"graph":{"level":1}}}`, []string{"graph_optimization_level:2"}},
		{nil, `{"optimization":{"graph":{"level":2}}}`, []string{"graph_optimization_level:0"}},
	} {
		said := sessionOptionsOf(t, d, log, c.parameters, c.json)
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%v %s: no %q in\n%s", c.parameters, c.json, want, said)
			}
		}
	}
}

// sessionOptionsOf makes a session that tells its options, and returns the text.
func sessionOptionsOf(t *testing.T, d *driver, log *nesotest.Log, parameters map[string]string, json string) string {
	t.Helper()
	before := len(log.String())
	loggers.mu.Lock()
	for _, l := range loggers.all {
		l.second = -1 // the lines that are let through begin anew
	}
	loggers.mu.Unlock()
	cfg := configOf(t, "identity_fp32", 4, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
	cfg.JSON, cfg.Parameters = []byte(json), maps.Clone(parameters)
	c, err := parseConfig(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	o, err := d.readOptions(&cfg, c, cfg.Instances[0])
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.environment(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	options, err := e.build(o, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.release(fnReleaseSessionOptions, options)
	if err := e.call(setSessionLogSeverity, options, 1); err != nil {
		t.Fatal(err)
	}
	path, err := modelFile(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, session := pathArgument(path), new(uintptr)
	if err := e.call(fnCreateSession, e.env, uintptr(unsafe.Pointer(p)), options, uintptr(unsafe.Pointer(session))); err != nil {
		t.Fatal(err)
	}
	e.release(fnReleaseSession, *session)
	return strings.Join(strings.Fields(log.String()[before:]), " ")
}
