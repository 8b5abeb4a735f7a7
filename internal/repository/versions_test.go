package repository

import "testing"

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
