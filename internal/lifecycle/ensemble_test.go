package lifecycle

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func ensembleTree(t *testing.T) string {
	return nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": ensembleConfig("a", "b", "a"), "e/1/": "",
		"nested/config.pbtxt": ensembleConfig("e", "b", "e"), "nested/1/": "",
	})
}

func TestEnsembles(t *testing.T) {
	step := func(models ...string) string {
		text := "platform: \"ensemble\"\ninput [ { name: \"X\" data_type: TYPE_FP32 dims: [ -1 ] } ]\noutput [ { name: \"Y\" data_type: " +
			"TYPE_FP32 dims: [ -1 ] } ]\nensemble_scheduling { step [\n"
		from := "X"
		for i, m := range models {
			to := "t" + m
			if i == len(models)-1 {
				to = "Y"
			}
			if i > 0 {
				text += ",\n"
			}
			text += `{ model_name: "` + m + `" model_version: -1 input_map { key: "IN" value: "` + from + `" } output_map { key: "OUT" value: "` +
				to + `" } }`
			from = to
		}
		return text + "\n] }\n"
	}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": step("a", "b"), "e/1/": "",
		"lacks/config.pbtxt": step("a", "nope"), "lacks/1/": "",
		"c1/config.pbtxt": step("c2"), "c1/1/": "", "c2/config.pbtxt": step("c1"), "c2/1/": "",
	})
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	mustLoad(t, m, Request{Name: "e"})
	wantServed(t, m, "a", -1, 1) // its parts were loaded first
	wantServed(t, m, "b", -1, 1)
	wantError(t, m.Load(t.Context(), Request{Name: "lacks"}), backend.InvalidArg,
		"load failed for model 'lacks': ensemble lacks contains models that are not available or ambiguous: nope\n")
	err := m.Load(t.Context(), Request{Name: "c1"})
	if err == nil || !strings.Contains(err.Error(), "circular dependency between ensembles: c1 -> c2 -> c1") {
		t.Error(err)
	}

	o := of(top, "e", "c1")
	o.faulty = true
	s := start(t, o, &nesotest.Echo{Name: "echo"})
	got := index(t, s)
	for _, text := range []string{
		"\nb 1 READY\n", "\ne 1 READY\n",
		"c1  UNAVAILABLE circular dependency between ensembles: c1 -> c2 -> c1; in ensemble c1, ensemble tensor X is mapping to non-existing " +
			"input IN in model c2",
	} {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in\n%s", text, got)
		}
	}
}

func TestEnsembleFaultsAtLoad(t *testing.T) {
	top := ensembleTree(t)
	nesotest.Put(t, top, "broken/config.pbtxt", strings.Replace(echoConfig, "echo", "nothing", 1))
	nesotest.Put(t, top, "broken/1/", "")
	nesotest.Put(t, top, "needs/config.pbtxt", ensembleConfig("broken"))
	nesotest.Put(t, top, "needs/1/", "")
	nesotest.Put(t, top, "outer/config.pbtxt", ensembleConfig("needs"))
	nesotest.Put(t, top, "outer/1/", "")
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	const why = "ensemble 'needs' depends on 'broken' which has no loaded version. Model 'broken' loading failed with error: version 1 is " +
		"at UNAVAILABLE state: " +
		"Invalid argument: unable to find backend library for backend 'nothing', try specifying runtime on the model configuration. " +
		"(broken/config.pbtxt:1, field backend: expected one of echo, found \"nothing\");"
	wantError(t, m.Load(t.Context(), Request{Name: "needs"}), backend.InvalidArg, "load failed for model 'needs': "+why+"\n")
	wantError(t, m.Load(t.Context(), Request{Name: "outer"}), backend.InvalidArg,
		"load failed for model 'outer': ensemble 'outer' depends on 'needs' which is not valid. Model 'needs' failed with error: "+why+"\n")

	// A model that becomes an ensemble of its own user would run for ever.
	mustLoad(t, m, Request{Name: "nested"})
	config := `{"platform":"ensemble","input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]}],"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[-1]}],
"ensemble_scheduling":{"step":[{"model_name":"nested","model_version":-1,"input_map":{"IN":"IN"},"output_map":{"OUT":"OUT"}}]}}`
	wantError(t, m.Load(t.Context(), Request{Name: "a", Config: config}), backend.InvalidArg,
		"load failed for model 'a': circular dependency between ensembles: a -> nested -> e -> a\n")
	wantServed(t, m, "nested", -1, 1)
}

// One attempt to load an ensemble tells all that is wrong with it, whatever
// finds it: its own configuration, the repository, the models of its steps.
func TestEnsembleFaultsAllAtOnce(t *testing.T) {
	const (
		in    = `platform: "ensemble" input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }` + "\n"
		steps = `{ model_name: "a" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "Y" } },
{ model_name: "shaped" model_version: 4 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "Z" } },
{ model_name: "shaped" model_version: -1 input_map { key: "WRONG" value: "X" } output_map { key: "OUT" value: "W" } },
{ model_name: "broken" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "V" } },
{ model_name: "gone" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "U" } },
{ model_name: "lost" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "T" } }`
	)
	out := func(names ...string) string {
		text := "output ["
		for i, n := range names {
			text += strings.Repeat(",", min(i, 1)) + ` { name: "` + n + `" data_type: TYPE_FP32 dims: [ 3 ] }`
		}
		return text + " ]\n"
	}
	loop := func(other string) string {
		return `, { model_name: "` + other + `" model_version: -1 input_map { key: "IN" value: "X" } output_map { key: "OUT" value: "S" } }`
	}
	shaped := strings.Replace(strings.ReplaceAll(echoConfig, "TYPE_FP32", "TYPE_INT32"), "dims: [ -1 ]", "dims: [ 2 ]", 2)
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "",
		"shaped/config.pbtxt": shaped, "shaped/1/": "",
		"broken/config.pbtxt": strings.Replace(echoConfig, "echo", "nothing", 1), "broken/1/": "",
		"models/config.pbtxt": in + out("Y", "Z", "W", "V", "U", "T") + "ensemble_scheduling { step [ " + steps + " ] }", "models/1/": "",
		"all/config.pbtxt": in + `input { name: "IDLE" data_type: TYPE_INT32 dims: [ -1 ] }` + out("Y", "NOT", "Z", "W", "V", "U", "S") +
			"ensemble_scheduling { step [ " + steps + loop("back") + ", " +
			`{ model_name: "a" model_version: -1 input_map { key: "IN" value: "c1" } output_map { key: "OUT" value: "c2" } },
{ model_name: "a" model_version: -1 input_map { key: "IN" value: "c2" } output_map { key: "OUT" value: "c1" } } ] }`, "all/1/": "",
		"back/config.pbtxt": ensembleConfig("all"), "back/1/": "",
	})
	ofModels := []string{
		"contains models that are not available or ambiguous: gone",
		"contains models that are not available or ambiguous: lost",
		"ensemble tensor X: inconsistent data type: TYPE_INT32 is inferred from model NAME while TYPE_FP32 is inferred from model a",
		"depends on 'shaped' whose required version 4 is not loaded.",
		"ensemble tensor X is mapping to non-existing input WRONG in model shaped",
		"input IN in model shaped is not mapped to any ensemble tensors",
		"ensemble tensor W: inconsistent data type: TYPE_FP32 is inferred from model NAME while TYPE_INT32 is inferred from model shaped",
	}
	ofSteps := []string{
		"ensemble input 'IDLE' for ensemble all' is not used",
		"ensemble output 'NOT' for ensemble all' is not used",
		"ensemble tensor 'T' is unused in ensemble 'all'",
		`ensemble tensor 'c1' is unused in ensemble 'all'`,
		`found the circle "c1" <- "c2" <- "c1"`,
		"circular dependency between ensembles: all -> back -> all",
	}
	for _, loaded := range []bool{false, true} {
		m := start(t, of(top), &nesotest.Echo{Name: "echo"})
		if loaded {
			mustLoad(t, m, Request{Name: "a"})
			mustLoad(t, m, Request{Name: "shaped"})
		}
		for _, c := range []struct {
			name   string
			code   backend.Code
			prefix string
			want   []string
		}{
			{"all", backend.Internal, "failed to load 'all', failed to poll from model repository: ", append(ofSteps, ofModels...)},
			{
				"models", backend.InvalidArg, "load failed for model 'models': ",
				append([]string{"Model 'broken' loading failed with error: version 1 is at UNAVAILABLE state"}, ofModels...),
			},
		} {
			err := m.Load(t.Context(), Request{Name: c.name})
			if err == nil || backend.AsError(err).Code != c.code || !strings.HasPrefix(err.Error(), c.prefix) {
				t.Fatalf("%s: %v", c.name, err)
			}
			for _, text := range c.want {
				text = strings.ReplaceAll(text, "NAME", c.name)
				if n := strings.Count(err.Error()+"\n", text); n == 0 {
					t.Errorf("%s, models loaded %v: no %q in\n%v", c.name, loaded, text, err)
				}
			}
		}
	}
}

// To requests an ensemble that fails validation is as unknown as a model whose
// configuration cannot be read, as in Triton: neither is in its index with a
// version, nor counts against readiness.
func TestEnsembleThatFailsIsNotFound(t *testing.T) {
	o := of(nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "",
		"gone/config.pbtxt": ensembleConfig("nothing"), "gone/1/": "",
		"wrong/config.pbtxt": strings.ReplaceAll(ensembleConfig("a"), "TYPE_FP32", "TYPE_INT32"), "wrong/1/": "",
	}), "a", "gone", "wrong")
	o.faulty = true
	m := start(t, o, &nesotest.Echo{Name: "echo"})
	for _, name := range []string{"gone", "wrong"} {
		for _, version := range []int64{-1, 1} {
			err := pinned(m, name, version)
			wantError(t, err, backend.NotFound, "Request for unknown model: '"+name+"' is not found")
		}
	}
	if err := m.AllReady(); err != nil {
		t.Error("an ensemble that is not known counts against readiness:", err)
	}
	wantServed(t, m, "a", -1, 1)
	for _, version := range []int64{-2, -7, 0} {
		if err := pinned(m, "a", version); err == nil || !strings.HasSuffix(err.Error(), "is not found") {
			t.Errorf("version %d: got %v", version, err)
		}
	}
}
