package engine

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// TestUnknownNamesAreWarnedOf: a misspelt setting or parameter does not pass in
// silence, and stops nothing.
func TestUnknownNamesAreWarnedOf(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"m/config.pbtxt": echoConfig + `parameters { key: "thread_cuont" value { string_value: "1" } }
			parameters { key: "thread_count" value { string_value: "1" } }
			parameters { key: "session.x" value { string_value: "1" } }
			parameters { key: "coalesce_identical_request" value { string_value: "true" } }
			parameters { key: "quite else" value { string_value: "1" } }`, "m/1/": "",
		"own/config.pbtxt": strings.ReplaceAll(echoConfig, `"echo"`, `"loose"`) + `parameters { key: "thread_cuont" value { string_value: "1" } }
			parameters { key: "quite else" value { string_value: "1" } }`, "own/1/": "",
		"any/config.pbtxt": strings.ReplaceAll(echoConfig, `"echo"`, `"any"`) + `parameters { key: "thread_cuont" value { string_value: "1" } }`,
		"any/1/":           "",
	})
	known := []string{"thread_count", "session.*"}
	strict, loose, free := (&nesotest.Echo{Name: "echo"}).Driver(), (&nesotest.Echo{Name: "loose"}).Driver(),
		(&nesotest.Echo{Name: "any"}).Driver()
	strict.Parameters, strict.Settings = known, []string{"pool"}
	loose.Parameters, loose.OwnParameters = known, true
	var log bytes.Buffer
	o := explicit(top, "m", "own", "any")
	o.Backends = []backend.Driver{strict, loose, free}
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	o.BackendSettings = map[string]map[string]string{
		"":     {"pool": "1", "min-compute-capability": "6", "pol": "1"},
		"echo": {"pool": "1", "pool-size": "1", "default-max-batch-size": "4"},
		"ecko": {"pool": "1"},
		"any":  {"what": "ever"},
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	const settings, parameters = `"backend-config has a setting that is not known and has no effect"`,
		`"the model has a parameter that is not known and has no effect"`
	want := []string{
		`msg=` + settings + ` backend="" setting=pol meant=pool`,
		`msg=` + settings + ` backend=echo setting=pool-size`,
		`msg="backend-config names a backend that this server does not have" backend=ecko meant=echo`,
		`msg=` + parameters + ` model=m version=1 parameter=coalesce_identical_request meant=coalesce_identical_requests`,
		`msg=` + parameters + ` model=m version=1 parameter="quite else"`,
		`msg=` + parameters + ` model=m version=1 parameter=thread_cuont meant=thread_count`,
		`msg=` + parameters + ` model=own version=1 parameter=thread_cuont meant=thread_count`,
	}
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	slices.Sort(got) // models load at the same time
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
