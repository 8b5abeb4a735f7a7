package fil

import (
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/internal/librarytest"
)

// forests are models of each kind that is laid out for speed, and of some that
// are left to the library.
const forests = `
import sys, numpy as np, lightgbm, treelite, xgboost
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier
out = sys.argv[1]
r = np.random.default_rng(1)
x = r.standard_normal((600, 7)).astype(np.float32)
x[r.random(x.shape) < 0.05] = np.nan
y = (np.nan_to_num(x[:, 0]) + r.standard_normal(600) > 0).astype(int)
many = r.integers(0, 4, 600)
def xgb(name, labels, **p):
    xgboost.train({"max_depth": 5, "nthread": 1, **p}, xgboost.DMatrix(x, labels), 20).save_model(f"{out}/{name}.json")
xgb("binary", y, objective="binary:logistic")
xgb("value", x[:, 1].copy() * 0 + y, objective="reg:squarederror")
xgb("counts", y, objective="count:poisson")
xgb("classes", many, objective="multi:softprob", num_class=4)
xgb("deep", y, objective="binary:logistic", max_depth=14, min_child_weight=0)
def lgb(name, labels, **p):
    lightgbm.train({"verbose": -1, "num_threads": 1, "min_data_in_leaf": 3, **p}, lightgbm.Dataset(x, labels), 20).save_model(f"{out}/{name}.txt")
lgb("lgb_binary", y, objective="binary")
lgb("lgb_classes", many, objective="multiclass", num_class=4)
lgb("lgb_long", y, objective="regression", num_leaves=120)
z = np.nan_to_num(x)
treelite.sklearn.import_model(ExtraTreesRegressor(12, max_depth=6, random_state=0).fit(z, y)).serialize(f"{out}/left_average.tl")
c = x.copy(); c[:, 2] = r.integers(0, 9, 600)
lightgbm.train({"verbose": -1, "num_threads": 1, "max_cat_to_onehot": 1, "min_data_per_group": 3, "cat_smooth": 1}, lightgbm.Dataset(c, c[:, 2] % 2 * y, categorical_feature=[2]), 10).save_model(f"{out}/left_categories.txt")
`

// A forest that is laid out anew answers as the library does (layOut leaves
// others to it), and those of the usual kinds are laid out.
func TestFlatForests(t *testing.T) {
	python, err := librarytest.Interpreter()
	if err != nil {
		t.Skip("no Python to train forests with:", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(python, "-c", forests, dir).CombinedOutput(); err != nil {
		t.Skipf("forests cannot be trained here: %s", out)
	}
	lib, err := Spec.Open(library.Locations{Python: librarytest.Interpreter})
	if err != nil {
		t.Skip(err)
	}
	a, err := openAPI(lib)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			kind := map[string]format{".json": xgboostJSON, ".txt": lightGBM, ".tl": checkpoint}[filepath.Ext(path)]
			f, err := a.loadFile(path, kind, &options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Drop()
			laid := f.flat32 != nil || f.flat64 != nil
			if want := name[:4] != "left"; laid != want {
				t.Fatalf("laid out: %t, want %t", laid, want)
			}
		})
	}
}

// lessThan of "at most" parts the numbers at the same place.
func TestLessThan(t *testing.T) {
	for _, v := range []float32{0, 1, -1, 1e-45, -1e-45, 3e38} {
		than, ok := lessThan(v, cmpLessEqual)
		if !ok || !(v < than) {
			t.Errorf("%g becomes less than %g", v, than)
		}
		if next, ok := lessThan(v, cmpLess); !ok || next != v {
			t.Errorf("less than %g becomes less than %g", v, next)
		}
	}
	if _, ok := lessThan(1.0, 1); ok {
		t.Error("equal is not less than")
	}
}

// BenchmarkForest is eight rows through 500 trees, by both ways.
func BenchmarkForest(b *testing.B) {
	lib, err := Spec.Open(library.Locations{Python: librarytest.Interpreter})
	if err != nil {
		b.Skip(err)
	}
	a, err := openAPI(lib)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	python, _ := librarytest.Interpreter()
	script := `
import sys, numpy as np, xgboost
r = np.random.default_rng(5)
x = r.standard_normal((2000, 30)).astype(np.float32)
y = (x[:, :3].sum(axis=1) + r.standard_normal(2000) > 0)
xgboost.train({"objective": "binary:logistic", "max_depth": 6, "nthread": 2}, xgboost.DMatrix(x, y), 500).save_model(sys.argv[1])
`
	path := filepath.Join(dir, "m.ubj")
	if out, err := exec.Command(python, "-c", script, path).CombinedOutput(); err != nil {
		b.Skipf("%s", out)
	}
	f, err := a.loadFile(path, xgboostUBJSON, &options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Drop()
	const rows = 8
	in, out := make([]float32, rows*f.features), make([]float32, rows)
	for i := range in {
		in[i] = float32(i%17)/4 - 2
	}
	for _, flat := range []bool{true, false} {
		b.Run(map[bool]string{true: "flat", false: "treelite"}[flat], func(b *testing.B) {
			for b.Loop() {
				if flat {
					f.flat32.predict(in, f.features, rows, out)
				} else if err := f.predict(unsafe.Pointer(&in[0]), rows, unsafe.Pointer(&out[0])); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
