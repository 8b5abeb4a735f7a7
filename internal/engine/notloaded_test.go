package engine

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// To requests an ensemble that fails validation is as unknown as a model whose
// configuration cannot be read, as in Triton: neither is in its index with a
// version, nor counts against readiness.
func TestEnsembleThatFailsIsNotFound(t *testing.T) {
	o := explicit(nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "",
		"gone/config.pbtxt": ensembleConfig("nothing"), "gone/1/": "",
		"wrong/config.pbtxt": strings.ReplaceAll(ensembleConfig("a"), "TYPE_FP32", "TYPE_INT32"), "wrong/1/": "",
	}), "a", "gone", "wrong")
	o.ExitOnError = false
	e := server(t, o, &nesotest.Echo{Name: "echo"})
	for _, name := range []string{"gone", "wrong"} {
		for _, version := range []int64{-1, 1} {
			_, err := e.Resolve(name, version, 0)
			wantError(t, err, backend.NotFound, "Request for unknown model: '"+name+"' is not found")
		}
	}
	if err := e.Ready(); err != nil {
		t.Error("an ensemble that is not known counts against readiness:", err)
	}
	wantServed(t, e, "a", -1, 1)
	for _, version := range []int64{-2, -7, 0} {
		if _, err := e.Resolve("a", version, 0); err == nil || !strings.HasSuffix(err.Error(), "is not found") {
			t.Errorf("version %d: got %v", version, err)
		}
	}
}

// A file that `runtime` names and that is nowhere keeps the model from loading,
// in Triton's words; one that is there, or is what the backend would be in
// Triton, does not.
func TestRuntime(t *testing.T) {
	with := func(runtime string) string { return echoConfig + "\nruntime: \"" + runtime + "\"\n" }
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": with("nope.so"), "a/1/": "",
		"b/config.pbtxt": with("libtriton_echo.so"), "b/1/": "",
		"c/config.pbtxt": with("mine.so"), "c/1/mine.so": "x",
		"d/config.pbtxt": with("mine.so"), "d/1/": "", "d/mine.so": "x",
		"e/config.pbtxt": with("../mine.so"), "e/1/": "",
		"f/config.pbtxt": with("none.py"), "f/1/": "",
	})
	e := server(t, explicit(top), &nesotest.Echo{Name: "echo"})
	for _, name := range []string{"b", "c", "d"} {
		mustLoad(t, e, name, "", nil)
	}
	for name, file := range map[string]string{"a": "nope.so", "f": "none.py"} {
		err := e.Load(t.Context(), name, "", nil)
		if want := "Invalid argument: unable to find backend library '" + file + "' for model '" + name + "', searched: "; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), top) {
			t.Errorf("%s: the error tells clients where the repository is: %v", name, err)
		}
	}
	if err := e.Load(t.Context(), "e", "", nil); err == nil || !strings.Contains(err.Error(), "'../mine.so'") {
		t.Errorf("outside of the model: got %v", err)
	}
}
