package repotest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nesoserve/neso"

// rows is the tree, top to bottom: a package may import packages above its
// own, nothing below. A name ending in /... stands for all packages under it,
// which may import each other.
var rows = []string{
	"internal/invariants",
	"internal/setting",
	"internal/logging",
	"internal/processors",
	"internal/procfs",
	"internal/rawsocket",
	"internal/scratch",
	"internal/startpages",
	"internal/inferencepb",
	"internal/gpu",
	"internal/cuda",
	"internal/spelling",
	"internal/filestamp",
	"internal/wholefile",
	"internal/hostmemory",
	"tensor",
	"internal/elements",
	"backend",
	"internal/modelconfig/...",

	"internal/memory",
	"internal/ledger",
	"internal/lane",
	"internal/shm",
	"internal/rollout",
	"internal/generation",
	"internal/infer",
	"internal/stats",
	"internal/tracing",
	"internal/refusals",
	"internal/recent",

	"internal/ratelimit",
	"internal/responsecache",
	"internal/scheduler",
	"internal/scheduler/...",
	"internal/instance",
	"internal/model",

	"internal/repository/...",
	"internal/lifecycle/...",
	"internal/residency",
	"internal/ondemand",

	"internal/listen",
	"internal/watchdog",
	"internal/auth",
	"internal/metrics",
	"internal/deadlock",
	"internal/engine",

	"internal/kserve/jsonscan",
	"internal/kserve",
	"internal/kserve/jsonwire",
	"internal/kserve/protowire",
	"internal/openapi",
	"internal/openai",
	"internal/openai/flight",
	"internal/httpapi/coding",
	"internal/httpapi/cloudform",
	"internal/httpapi/transport",
	"internal/httpapi",
	"internal/grpcapi/transport/dispatch",
	"internal/grpcapi/transport/flow",
	"internal/grpcapi/transport/header",
	"internal/grpcapi/transport",
	"internal/grpcapi/library",
	"internal/grpcapi",
	"internal/dashboard",

	"python", // the worker's files, embedded
	".",      // the public server
	"client/internal/plainjson",
	"client/internal/events",
	"client/internal/bounded",
	"client/internal/mapping",
	"client",

	"capi/handle",
	"capi/object",
	"capi/native",
	"capi/agent",
	"capi/cache",
	"capi",
	"cmd/libtritonserver",

	"internal/image",

	"internal/perf/plot",
	"internal/perf/options",
	"internal/perf/schedule",
	"internal/perf/data",
	"internal/perf/wire",
	"internal/perf/drive",
	"internal/perf/target",
	"internal/perf/measure",
	"internal/perf/load",
	"internal/perf/report",
	"internal/perf",

	"internal/tune/search",
	"internal/tune/trial",
	"internal/tune/knobs",
	"internal/tune/overlay",
	"internal/tune/server",
	"internal/tune/checkpoint",
	"internal/tune/analyzer",
	"internal/tune/report",
	"internal/tune",
}

// backends is row 8: it sees the vocabulary, processors, procfs, rawsocket, memory, cuda, shm, python and itself.
var backends = []string{
	"internal/invariants", "internal/logging", "internal/processors", "internal/procfs", "internal/rawsocket", "internal/scratch",
	"tensor", "backend", "internal/memory",
	"internal/cuda", "internal/shm", "python",
}

// workerRows is the tree of what speaks with worker processes, in the way of rows:
// first those that know nothing of a connection, then the connection ("."), then who
// keeps it alive.
var workerRows = []string{
	"channel", "wire", "limits", "linelog", "segment", "board", "near", "process", "guest",
	"ledger", "reader", "stream", "inflight", "hostmetrics", "hostcalls", ".", "supervise",
}

const workerTree = "backend/internal/worker"

func workerRow(path string) int {
	if path == workerTree {
		path += "/."
	}
	return slices.Index(workerRows, strings.TrimPrefix(path, workerTree+"/"))
}

// seeBackends may import row 8.
var seeBackends = []string{"internal/cli", "cmd/neso", "capi", "e2e", "bench"}

// forExamples is what examples may import: what a program of a user's can.
var forExamples = []string{"tensor", "backend", "backend/all", ".", "client"}

// onlyFor names packages that few may import, whatever the order allows.
var onlyFor = map[string][]string{
	"internal/inferencepb":      {"internal/modelconfig", "internal/kserve/protowire", "internal/grpcapi", "internal/perf/target", "client"},
	"internal/kserve/jsonwire":  {"internal/httpapi", "internal/grpcapi", "internal/openai/flight"},
	"internal/kserve/protowire": {"internal/grpcapi"},
}

type pkg struct{ path, imports, testImports string }

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{join .Imports ","}}|{{join .TestImports ","}},{{join .XTestImports ","}}`,
		module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 3)
		all = append(all, pkg{local(f[0]), f[1], f[2]})
	}
	return all
}

// local returns the path inside the module; "." for its root.
func local(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func rowOf(path string) int {
	for i, r := range rows {
		if prefix, all := strings.CutSuffix(r, "/..."); r == path || all && (path == prefix || strings.HasPrefix(path, prefix+"/")) {
			return i
		}
	}
	return -1
}

func isBackend(path string) bool { return strings.HasPrefix(path, "backend/") }

func allowed(importer, imported string) string {
	if list, ok := onlyFor[imported]; ok && !contains(list, importer) {
		return "only " + strings.Join(list, ", ") + " may"
	}
	if strings.HasPrefix(importer, "examples/") {
		if slices.Contains(forExamples, imported) {
			return ""
		}
		return "an example sees only public packages"
	}
	if contains([]string{workerTree}, importer) {
		switch from, to := workerRow(importer), workerRow(imported); {
		case from < 0:
			return "its place in the tree of workers is not written in imports_test.go"
		case contains([]string{workerTree}, imported) && from <= to:
			return "it stands below"
		}
	}
	if isBackend(importer) {
		if isBackend(imported) || contains(backends, imported) {
			return ""
		}
		return "a backend sees only the vocabulary, memory, shm, python and other backends"
	}
	if contains(seeBackends, importer) {
		return ""
	}
	if isBackend(imported) {
		return "only " + strings.Join(seeBackends, ", ") + " may"
	}
	from, to := rowOf(importer), rowOf(imported)
	switch {
	case from < 0:
		return "its place in the tree is not written in imports_test.go"
	case to < 0:
		return "the imported package has no place in the tree"
	case from < to || from == to && !strings.HasSuffix(rows[from], "/..."):
		return "it stands below"
	}
	return ""
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s || strings.HasPrefix(s, x+"/") {
			return true
		}
	}
	return false
}

func TestImportOrder(t *testing.T) {
	for _, p := range packages(t) {
		if p.path == "internal/repotest" || strings.HasPrefix(p.path, "internal/nesotest") {
			continue // for tests: may see everything, and only tests see it
		}
		for imported := range strings.SplitSeq(p.imports, ",") {
			if imported != module && !strings.HasPrefix(imported, module+"/") {
				continue
			}
			if strings.HasPrefix(local(imported), "internal/nesotest") {
				if !strings.HasPrefix(p.path, "backend/backendtest") {
					t.Errorf("%s imports internal/nesotest: only tests may", p.path)
				}
				continue
			}
			if why := allowed(p.path, local(imported)); why != "" {
				t.Errorf("%s imports %s: %s", p.path, local(imported), why)
			}
		}
	}
}

// TestTheRulesBite keeps the checker itself honest.
func TestTheRulesBite(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"internal/engine", "internal/model", true},
		{"internal/model", "internal/engine", false},
		{"internal/httpapi", "backend/identity", false},
		{"internal/cli", "backend/identity", true},
		{"examples/go", "backend/all", true},
		{"examples/go", "internal/engine", false},
		{"backend/python", "backend/internal/worker", true},
		{"backend/python", "internal/engine", false},
		{"backend/python", "backend/internal/worker/supervise", true},
		{"backend/internal/worker", "backend/internal/worker/wire", true},
		{"backend/internal/worker/wire", "backend/internal/worker", false},
		{"backend/internal/worker/wire", "backend/internal/worker/segment", false},
		{"backend/internal/worker/process", "backend/internal/worker/supervise", false},
		{"backend/internal/worker/unheard", "tensor", false},
		{"internal/scheduler/dynamic", "internal/scheduler", true},
		{"internal/httpapi", "internal/inferencepb", false},
		{"internal/kserve/protowire", "internal/inferencepb", true},
		{"internal/kserve/protowire", "internal/kserve/jsonwire", false},
		{"internal/kserve/jsonwire", "internal/kserve", true},
		{"internal/kserve", "internal/kserve/jsonwire", false},
		{"internal/unheard", "tensor", false},
	} {
		if got := allowed(c.from, c.to); (got == "") != c.ok {
			t.Errorf("%s imports %s: %q, want allowed=%v", c.from, c.to, got, c.ok)
		}
	}
}

// TestTheLinkerMayDropMethods: a package that calls methods by names that it
// reads at run time makes the linker keep every method of every type, which was
// a third of the binary. The tag is that of the Makefile; text/template, which
// cobra brings, is dropped as long as nobody prints with it.
func TestTheLinkerMayDropMethods(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", module+"/cmd/neso").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name == "html/template" || name == "golang.org/x/net/trace" {
			t.Errorf("cmd/neso depends on %s", name)
		}
	}
}
