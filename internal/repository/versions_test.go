package repository

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/modelconfig"
)

func TestParseVersion(t *testing.T) {
	for name, want := range map[string]struct {
		version     int64
		ok, ignored bool
	}{
		"1":                   {1, true, false},
		"12":                  {12, true, false},
		"3-fixed":             {3, true, false},
		"9223372036854775807": {9223372036854775807, true, false},
		"9223372036854775808": {0, false, true},
		"0":                   {0, false, true},
		"01":                  {0, false, true},
		"-1":                  {0, false, true},
		"one":                 {0, false, true},
		"":                    {0, false, true},
		"warmup":              {0, false, false},
		"initial_state":       {0, false, false},
		"configs":             {0, false, false},
	} {
		v, ok, ignored := ParseVersion(name)
		if v != want.version || ok != want.ok || ignored != want.ignored {
			t.Errorf("ParseVersion(%q) = %d, %v, %v; want %+v", name, v, ok, ignored, want)
		}
	}
}

func TestSelect(t *testing.T) {
	type ids = []int64
	for name, tc := range map[string]struct {
		policy               modelconfig.VersionPolicy
		have, serve, missing ids
	}{
		"latest one":           {modelconfig.VersionPolicy{Latest: 1}, ids{1, 2, 10}, ids{10}, nil},
		"latest two":           {modelconfig.VersionPolicy{Latest: 2}, ids{1, 2, 10}, ids{2, 10}, nil},
		"latest more than all": {modelconfig.VersionPolicy{Latest: 9}, ids{1, 2}, ids{1, 2}, nil},
		"nothing set":          {modelconfig.VersionPolicy{}, ids{1, 2}, ids{2}, nil},
		"all":                  {modelconfig.VersionPolicy{All: true}, ids{1, 2, 10}, ids{1, 2, 10}, nil},
		"specific":             {modelconfig.VersionPolicy{Specific: ids{3, 1, 3, 7}}, ids{1, 2, 3}, ids{1, 3}, ids{7}},
		"specific, none there": {modelconfig.VersionPolicy{Specific: ids{4}}, ids{1}, nil, ids{4}},
		"no versions":          {modelconfig.VersionPolicy{Latest: 1}, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			serve, missing := Select(tc.policy, tc.have)
			if len(serve) == 0 {
				serve = nil
			}
			if d := cmp.Diff(serve, tc.serve); d != "" {
				t.Errorf("serve: got -, want +\n%s", d)
			}
			if d := cmp.Diff(missing, tc.missing); d != "" {
				t.Errorf("missing: got -, want +\n%s", d)
			}
		})
	}
}
