package rollout

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

const whole = `labels: {stable: 1, canary: 2}
weights: {stable: 95, canary: 5}
sticky: X-User
mirror:
  to: canary
  percent: 10
  tolerance: {absolute: 1e-5, relative: 0.001}
  concurrency: 2
  queue: 8
  timeout: 5s
step_back:
  from: canary
  window: 30s
  min_requests: 50
  max_error_rate: 0.05
  max_latency: 200ms
  quantile: 0.95
  max_latency_ratio: 1.5
`

func TestParse(t *testing.T) {
	canary := Ref{Label: "canary"}
	want := Rules{
		Labels: map[string]int64{"stable": 1, "canary": 2}, Weights: []Weight{{canary, 5}, {Ref{Label: "stable"}, 95}}, Sticky: "x-user",
		Mirror: &Mirror{To: canary, Percent: 10, Tolerance: Tolerance{1e-5, 0.001}, Concurrency: 2, Queue: 8, Timeout: 5 * time.Second},
		StepBack: &StepBack{
			From: canary, Window: 30 * time.Second, MinRequests: 50, MaxErrorRate: 0.05, MaxLatency: 200 * time.Millisecond, Quantile: 0.95,
			MaxLatencyRatio: 1.5,
		},
	}
	got, err := Parse([]byte(whole), File)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	text, err := json.Marshal(&got)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(text, "what was written"); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%s is read as %+v, %v; want %+v", text, again, err, want)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Parse([]byte("mirror: {to: 2}\nstep_back: {from: 2, max_error_rate: 0}"), File)
	want := Rules{
		Mirror: &Mirror{To: Ref{Version: 2}, Percent: 100, Concurrency: 1, Queue: 64, Timeout: 30 * time.Second},
		StepBack: &StepBack{
			From: Ref{Version: 2}, Window: time.Minute, MinRequests: 100, Quantile: 0.99,
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "\n# nothing yet\n", "{}"} {
		if got, err := Parse([]byte(text), File); err != nil || !got.Empty() {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"labels: {1: 2}":                             "rollout.yaml:1: labels.1: a label has 1 to 64 letters",
		"labels:\n  a: 0":                            "rollout.yaml:2: labels.a: expected the number of a version, got '0'",
		"labels: {a: [1]}":                           "labels.a: expected the number of a version, got a list",
		"labels: {a: null}":                          "labels.a: expected the number of a version, got nothing",
		"labels: 1":                                  "labels: expected fields (), got '1'",
		"labels: {a: 1, a: 2}":                       "labels.a: it stands here twice",
		"label: {a: 1}":                              "label: there is no such field, expected one of labels, weights, sticky, mirror,",
		"weights: {a: 1.5}":                          "weights.a: expected a whole number from 0 to 1000000, got '1.5'",
		"weights: {a: 1000001}":                      "got '1000001'",
		"weights: {-1: 1}":                           "weights.-1: expected a label or the number of a version, got '-1'",
		"weights: {a: 0, b: 0}":                      "weights: their sum is 0, expected one above it",
		"sticky: 'a b'":                              "sticky: expected the name of a header",
		"sticky: cookie":                             "sticky: 'cookie' is not a header to go by",
		"sticky: [a]":                                "got a list",
		"mirror: {}":                                 "mirror.to: it is missing",
		"mirror: {to: 1, percent: 101}":              "mirror.percent: expected a number from 0 to 100, got '101'",
		"mirror: {to: 1, percent: .nan}":             "got '.nan'",
		"mirror: {to: 1, tolerance: 0.1}":            "mirror.tolerance: expected fields (absolute, relative), got '0.1'",
		"mirror: {to: 1, tolerance: {absolute: -1}}": "mirror.tolerance.absolute: expected a number of at least 0, got '-1'",
		"mirror: {to: 1, timeout: 5}":                "mirror.timeout: expected a time from 1ms to 1h0m0s, such as 30s, got '5'",
		"mirror: {to: 1, queue: 1e9}":                "mirror.queue: expected a whole number from 0 to 65536, got '1e9'",
		"step_back: {from: 2}":                       "step_back: there is no bound",
		"step_back: {max_error_rate: 0}":             "step_back.from: it is missing",
		"resume: true":                               "resume: it is an order to a running server, not a rule",
		"a: &x 1\nlabels: *x":                        "labels: anchors and aliases are not taken",
		"? [a]\n: 1":                                 "expected the name of a field, got a list",
		"- a":                                        "expected fields (labels, weights,",
		"{}\n---\nlabels: {b: 1}":                    "rollout.yaml:2: a second document begins here",
		"a: [":                                       "rollout.yaml: line 1: did not find expected node content",
		"\xff":                                       "rollout.yaml: ",
		strings.Repeat("x", MaxText+1):               "rollout.yaml has 65537 bytes, the limit is 65536",
	} {
		_, err := Parse([]byte(text), File)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// TestAllFaultsAtOnce: an author sees them together, but not without end.
func TestAllFaultsAtOnce(t *testing.T) {
	_, err := Parse([]byte("labels: {a: x, b: y}\nmirror: {percent: z}"), File)
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 4 {
		t.Errorf("got %d lines, want 4: %v", lines, err)
	}
	_, err = Parse([]byte("labels:"+strings.Repeat("\n  -: x", 100)), File)
	if text := err.Error(); strings.Count(text, "\n") > maxFaults || !strings.Contains(text, "more") {
		t.Errorf("got %s", text)
	}
}

func TestAmend(t *testing.T) {
	base, err := Parse([]byte(whole), File)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text   string
		change func(r *Rules)
		resume bool
	}{
		{`{"labels": {"canary": 3}}`, func(r *Rules) { r.Labels = map[string]int64{"stable": 1, "canary": 3} }, false},
		{`{"labels": {"canary": null}}`, func(r *Rules) { r.Labels = map[string]int64{"stable": 1} }, false},
		{`{"labels": null}`, func(r *Rules) { r.Labels = nil }, false},
		{`{"weights": {"1": 1}}`, func(r *Rules) { r.Weights = []Weight{{Ref{Version: 1}, 1}} }, true},
		{`{"weights": null, "sticky": null}`, func(r *Rules) { r.Weights, r.Sticky = nil, "" }, true},
		{`{"mirror": null}`, func(r *Rules) { r.Mirror = nil }, false},
		{`{"step_back": null}`, func(r *Rules) { r.StepBack = nil }, true},
		{`{"resume": true}`, func(*Rules) {}, true},
		{`{"resume": false}`, func(*Rules) {}, false},
		{`{}`, func(*Rules) {}, false},
	} {
		want := base
		c.change(&want)
		got, err := Amend(base, []byte(c.text), "the request")
		if err != nil || got.Resume != c.resume || !reflect.DeepEqual(got.Rules, want) {
			t.Errorf("%s: got %+v, %v; want %+v, resume %v", c.text, got, err, want, c.resume)
		}
	}
	if len(base.Labels) != 2 {
		t.Error("a change has changed what it was based on")
	}
}

func TestIsLabel(t *testing.T) {
	for name, want := range map[string]bool{
		"stable": true, "a": true, "V1.2_x-y": true, strings.Repeat("a", 64): true,
		"": false, "1": false, "1a": false, "-a": false, ".a": false, "a b": false, "a/b": false, "é": false, "a%20": false,
		strings.Repeat("a", 65): false,
	} {
		if IsLabel(name) != want {
			t.Errorf("%q: got %v", name, !want)
		}
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]Ask{
		"m@canary": {Version: -1, Label: "canary"}, "a@b@3": {Version: 3}, "org/m@v1.2": {Version: -1, Label: "v1.2"},
	} {
		if model, ask, ok := SplitName(name); !ok || ask != want || model != name[:strings.LastIndexByte(name, '@')] {
			t.Errorf("%s: got %s, %+v, %v; want %+v", name, model, ask, ok, want)
		}
	}
	for _, name := range []string{"m", "@canary", "m@", "m@0", "m@-1", "m@1a", "m@a b"} {
		if _, _, ok := SplitName(name); ok {
			t.Errorf("%s names a version", name)
		}
	}
}

// FuzzSplitName: what is taken apart is a name and a label or number that can be one.
func FuzzSplitName(f *testing.F) {
	f.Add("m@canary")
	f.Add("a@b@3")
	f.Add("@\x00@-9223372036854775808")
	f.Fuzz(func(t *testing.T, name string) {
		model, ask, ok := SplitName(name)
		if !ok {
			return
		}
		rest, found := strings.CutPrefix(name, model+"@")
		labelled := ask.Version == -1 && rest == ask.Label && IsLabel(rest)
		numbered := ask.Version > 0 && ask.Label == "" && !IsLabel(rest)
		if !found || model == "" || labelled == numbered {
			t.Errorf("%q: %q, %+v", name, model, ask)
		}
	})
}

// FuzzRules: what is read is written and read again as the same, and can be applied or
// is refused.
func FuzzRules(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"labels": {"a": 1}, "weights": {"a": 3, "2": 1}, "resume": true}`))
	f.Add([]byte("labels: &x {a: 1}\nweights: *x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Amend(Rules{Labels: map[string]int64{"a": 1}}, text, "the request")
		if err != nil {
			if len(err.Error()) > 64<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		out, err := json.Marshal(&c.Rules)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out, "what was written")
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if a, _ := json.Marshal(&again); string(a) != string(out) {
			t.Errorf("%s is read as %s", out, a)
		}
		p, err := Make(c.Rules, nil, plain(1, 2, 3))
		if err == nil {
			v, _ := p.Choose("key", 7)
			if v < 1 || v > 3 {
				t.Errorf("version %d is not there", v)
			}
		}
	})
}

// plain is a model with these versions, none of which is special.
func plain(versions ...int64) Subject {
	no := func(int64) bool { return false }
	return Subject{Name: "m", Versions: versions, Sequences: no, Passes: no}
}
