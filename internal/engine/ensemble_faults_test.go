package engine

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

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
		e := server(t, explicit(top), &nesotest.Echo{Name: "echo"})
		if loaded {
			mustLoad(t, e, "a", "", nil)
			mustLoad(t, e, "shaped", "", nil)
		}
		for _, c := range []struct {
			name   string
			code   backend.Code
			prefix string
			want   []string
		}{
			{"all", backend.Internal, "failed to load 'all', failed to poll from model repository: ", append(ofSteps, ofModels...)},
			{"models", backend.InvalidArg, "load failed for model 'models': ", append([]string{"Model 'broken' loading failed with error: version 1 is at UNAVAILABLE state"}, ofModels...)},
		} {
			err := e.Load(t.Context(), c.name, "", nil)
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
