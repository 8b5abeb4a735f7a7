package agent

import (
	"log/slog"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
)

const (
	md5Hello    = "5d41402abc4b2a76b9719d911017c592"
	sha256Hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
)

func TestChecksum(t *testing.T) {
	dir := nesotest.Tree(t, map[string]string{"1/model.py": "hello", "1/dir/": ""})
	sum := func(pairs ...string) modelconfig.Agent {
		a := modelconfig.Agent{Name: "checksum", Parameters: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			a.Parameters[pairs[i]] = pairs[i+1]
		}
		return a
	}
	unknown := modelconfig.Agent{Name: "nosuch"}
	for name, c := range map[string]struct {
		agents []modelconfig.Agent
		code   backend.Code
		want   string
	}{
		"none":            {nil, 0, ""},
		"fits":            {[]modelconfig.Agent{sum("MD5:1/model.py", md5Hello)}, 0, ""},
		"lower case name": {[]modelconfig.Agent{sum("md5:1/model.py", md5Hello)}, 0, ""},
		"ours":            {[]modelconfig.Agent{sum("SHA256:1/model.py", sha256Hello)}, 0, ""},
		"differs": {
			[]modelconfig.Agent{sum("MD5:1/model.py", "x")},
			backend.InvalidArg,
			"Mismatched MD5 hash for file 1/model.py, expect: x, got: " + md5Hello,
		},
		"no colon":  {[]modelconfig.Agent{sum("1/model.py", "x")}, backend.InvalidArg, "failed to parse key: 1/model.py"},
		"algorithm": {[]modelconfig.Agent{sum("SHA3:1/model.py", "x")}, backend.Unsupported, "Unsupported checksum algorithm: SHA3"},
		"missing": {
			[]modelconfig.Agent{sum("MD5:2/model.py", "x")},
			backend.InvalidArg,
			"failed to open text file for read 2/model.py: No such file or directory",
		},
		"outside": {
			[]modelconfig.Agent{sum("MD5:../x", "x")},
			backend.InvalidArg,
			"failed to open text file for read ../x: the path leads out of the model's directory",
		},
		"directory": {
			[]modelconfig.Agent{sum("MD5:1/dir", "x")},
			backend.InvalidArg,
			"failed to open text file for read 1/dir: not a regular file",
		},
		"unknown": {
			[]modelconfig.Agent{unknown},
			backend.InvalidArg,
			"unable to find 'libtritonrepoagent_nosuch.so' for repo agent 'nosuch', searched: /agents",
		},
		"order": {
			[]modelconfig.Agent{sum("MD5:1/model.py", "first"), unknown},
			backend.InvalidArg,
			"Mismatched MD5 hash for file 1/model.py, expect: first, got: " + md5Hello,
		},
		"other order": {
			[]modelconfig.Agent{unknown, sum("MD5:1/model.py", "first")},
			backend.InvalidArg,
			"unable to find 'libtritonrepoagent_nosuch.so' for repo agent 'nosuch', searched: /agents",
		},
	} {
		set := NewSet("/agents", nil, nil, slog.New(slog.DiscardHandler))
		_, err := set.Load(t.Context(), &Model{Name: "m", Agents: c.agents, Directory: dir})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || err.Error() != c.want || backend.AsError(err).Code != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
