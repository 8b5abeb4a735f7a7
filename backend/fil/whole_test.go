package fil

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend/internal/librarytest"
)

// writeWhole has the libraries write forests of all kinds.
const writeWhole = `
import sys, numpy as np, lightgbm, treelite, xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
out = sys.argv[1]
random = np.random.default_rng(0)
x = random.normal(size=(200, 6)); y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
x[:, 2] = random.integers(0, 40, 200)
p = {"verbose": -1, "num_threads": 1, "num_leaves": 5}
forest = lightgbm.train(p, lightgbm.Dataset(x, y, categorical_feature=[2], params={"min_data_per_group": 3}), 5)
forest.save_model(f"{out}/model.txt")
treelite.frontend.load_lightgbm_model(f"{out}/model.txt").serialize(f"{out}/categories.tl")
booster = xgboost.train({"nthread": 1, "objective": "multi:softprob", "num_class": 3, "max_depth": 2}, xgboost.DMatrix(x, y), 3)
booster.save_model(f"{out}/xgboost.json"); booster.save_model(f"{out}/xgboost.ubj")
treelite.frontend.from_xgboost(booster).serialize(f"{out}/classes.tl")
treelite.sklearn.import_model(RandomForestClassifier(3, max_depth=3, n_jobs=1).fit(x, y)).serialize(f"{out}/vectors.tl")
treelite.sklearn.import_model(RandomForestRegressor(3, max_depth=3, n_jobs=1).fit(x, np.c_[y, x[:, 0]])).serialize(f"{out}/targets.tl")
`

func wholeForests(t *testing.T) string {
	t.Helper()
	interpreter, err := librarytest.Interpreter()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", writeWhole, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestFilesThatAreCut: a file that is cut anywhere but behind what a forest needs
// is a clear error, and never loads.
func TestFilesThatAreCut(t *testing.T) {
	dir := wholeForests(t)
	d := open(t, nil)
	for _, name := range []string{"categories.tl", "classes.tl", "vectors.tl", "targets.tl", "xgboost.json", "xgboost.ubj", "model.txt"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		file := name
		if strings.HasSuffix(name, ".tl") {
			file = "checkpoint.tl"
			if err := walkCheckpoint(bytes.NewReader(content), int64(len(content))); err != nil {
				t.Errorf("%s: whole, and %v", name, err)
			}
			for cut := range content[:len(content)-1] {
				if walkCheckpoint(bytes.NewReader(content[:cut]), int64(cut)) == nil {
					t.Errorf("%s: whole with %d of %d bytes", name, cut, len(content))
				}
			}
		}
		load := func(content []byte) error {
			cfg := configFor(t, file, content)
			cfg.Inputs, cfg.Outputs, cfg.JSON = nil, nil, []byte("{}")
			_, err := d.Complete(t.Context(), cfg)
			return err
		}
		if err := load(content); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		end := len(content)
		if name == "model.txt" {
			end = bytes.Index(content, []byte("end of parameters"))
		}
		for _, cut := range []int{end - 1, end - 9, end * 9 / 10, end / 2, end / 10, 40} {
			if err := load(content[:cut]); err == nil || !strings.Contains(err.Error(), "'"+file+"'") || !strings.Contains(err.Error(), "whole") ||
				strings.Contains(err.Error(), "Check failed") {
				t.Errorf("%s, %d of %d bytes: %v", name, cut, len(content), err)
			}
		}
	}
}

// TestLightGBMTrees: what the head of a file says of its trees is held against
// them.
func TestLightGBMTrees(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(wholeForests(t), "model.txt"))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(content)
	trees, rest, ok := strings.Cut(whole, "end of trees")
	if !ok {
		t.Fatal("the file has no such line")
	}
	last := strings.Index(trees, "Tree=4")
	old := strings.Replace(trees, "version=v4", "version=v2", 1)
	for _, c := range []struct{ name, text, want string }{
		{"whole", whole, ""},
		{"other ends of lines", strings.ReplaceAll(whole, "\n", "\r\n"), ""},
		{"version 2", old, ""},
		{"version 2, with importances", old + "\nfeature importances:\nColumn_0=7\n", ""},
		{"nothing behind the trees", trees + "end of trees\n", ""},
		{"a short last tree", trees[:len(trees)-60] + "\nend of trees" + rest, fmt.Sprintf("tree 4, at offset %d, has %d of %d bytes", last,
			len(trees)-last-59, len(trees)-last)},
		{"a short tree", strings.Replace(whole, "leaf_count=", "", 2), "tree 0, at offset"},
		{"version 2, cut", old[:len(old)-40], fmt.Sprintf("tree 4, at offset %d, has %d of %d bytes", last, len(trees)-last-40, len(trees)-last)},
		{"a missing tree", trees[:last] + "end of trees" + rest, "it has 4 of 5 trees"},
		{"no end", trees, "the line that ends the trees is missing"},
		{"in the parameters", whole[:strings.Index(whole, "end of parameters")-10], "the line that ends the parameters is missing"},
	} {
		path := filepath.Join(t.TempDir(), "model.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkLightGBM(path); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	head := binary.LittleEndian.AppendUint32(nil, 4)
	f.Add(append(head, make([]byte, 300)...))
	f.Add(append(append(head, make([]byte, 10)...), bytes.Repeat([]byte{255}, 60)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := walkCheckpoint(bytes.NewReader(content), int64(len(content))); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}
