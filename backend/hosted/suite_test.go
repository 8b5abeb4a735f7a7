package hosted

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// estimators makes the models of the suite in the given directory: one whose
// output is its input, and one that takes the numbers 0 to 9 and no others.
const estimators = `
import sys, warnings
import joblib, numpy as np
from sklearn import preprocessing
warnings.simplefilter("ignore")
joblib.dump(preprocessing.FunctionTransformer(), sys.argv[1] + "/identity")
digits = np.arange(10, dtype=np.int32).reshape(-1, 1)
joblib.dump(preprocessing.OrdinalEncoder(dtype=np.int32).fit(digits), sys.argv[1] + "/digits")
`

// TestSuite runs the suite with scikit-learn, the framework that the tests'
// environment has; the others share all but how they load and run a model.
func TestSuite(t *testing.T) {
	interpreter, err := librarytest.Interpreter()
	if err != nil {
		t.Skip(err)
	}
	made := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", estimators, made).CombinedOutput(); err != nil {
		t.Skipf("no scikit-learn: %v\n%s", err, out)
	}
	model := func(t *testing.T, file string, d tensor.Datatype, batch int, dims ...int64) backend.Config {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(made, file))
		if err != nil {
			t.Fatal(err)
		}
		cfg := librarytest.Config(t, "model.joblib", content)
		cfg.MaxBatchSize = batch
		cfg.Inputs = []backend.IO{{Name: "IN", Datatype: d, Dims: dims}}
		cfg.Outputs = []backend.IO{{Name: "transform", Datatype: d, Dims: dims}}
		word := "TYPE_" + d.String()
		if d == tensor.Bytes {
			word = "TYPE_STRING"
		}
		cfg.JSON, err = json.Marshal(map[string]any{
			"name": "model", "backend": "sklearn", "max_batch_size": batch,
			"input":  []any{map[string]any{"name": "IN", "data_type": word, "dims": dims}},
			"output": []any{map[string]any{"name": "transform", "data_type": word, "dims": dims}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	var driver backend.Driver
	for _, d := range Drivers(python.Options{Python: interpreter}) {
		if d.Name == "sklearn" {
			driver = d
		}
	}
	backendtest.Run(t, backendtest.Suite{
		Driver:   driver,
		Settings: backend.Settings{Values: map[string]string{"allow-pickle": "true", "stub-timeout-seconds": "300"}},
		Identity: func(t *testing.T, d tensor.Datatype, batch int) backend.Config {
			if batch == 0 {
				t.Skip("an estimator takes rows")
			}
			if !slices.Contains([]tensor.Datatype{tensor.Bool, tensor.Int32, tensor.FP32, tensor.Bytes}, d) {
				t.Skip("the way of the others, which package python tests")
			}
			return model(t, "identity", d, batch, -1)
		},
		Failing: func(t *testing.T) backend.Config { return model(t, "digits", tensor.Int32, 8, 1) },
		Broken: func(t *testing.T) backend.Config {
			cfg := model(t, "digits", tensor.Int32, 8, 1)
			if err := os.WriteFile(filepath.Join(cfg.VersionDirectory, cfg.Filename), []byte("broken"), 0o600); err != nil {
				t.Fatal(err)
			}
			return cfg
		},
	})
}
