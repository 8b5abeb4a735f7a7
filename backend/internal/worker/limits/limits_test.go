package limits

import (
	"strings"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	if !Supported {
		t.Skip("nothing limits workers here")
	}
	for _, c := range []struct {
		name, value string
		want        Limits
		fails       string
	}{
		{ParamMemory, "1M", Limits{Memory: 1 << 20}, ""},
		{ParamMemory, "2G", Limits{Memory: 2 << 30}, ""},
		{ParamMemory, "1048575", Limits{}, "not a number from 1048576 on"},
		{ParamMemory, "9999999999T", Limits{}, "not a number"},
		{ParamMemory, "", Limits{}, "not a number"},
		{ParamMemory, "M", Limits{}, "not a number"},
		{ParamMemory, "-1", Limits{}, "not a number"},
		{paramOpenFiles, "32", Limits{OpenFiles: 32}, ""},
		{paramOpenFiles, "31", Limits{}, "not a number from 32 on"},
		{paramCPU, "1", Limits{CPU: 1}, ""},
		{paramCPU, "0", Limits{}, "not a number from 1 on"},
		{"something else", "0", Limits{}, ""},
	} {
		parameters := map[string]string{c.name: c.value}
		got, err := Of(parameters)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s=%s: got %+v, %v", c.name, c.value, got, err)
		}
		if (Check(parameters, c.name) == nil) != (c.fails == "") {
			t.Errorf("%s=%s: Check says otherwise", c.name, c.value)
		}
	}
}

func TestLoadLimitOf(t *testing.T) {
	for _, c := range []struct {
		name                 string
		parameters, settings map[string]string
		want                 time.Duration
		fails                bool
	}{
		{"nothing said", nil, nil, defaultLoadLimit, false},
		{"limited memory", map[string]string{ParamMemory: "1G"}, nil, limitedLoadLimit, false},
		{"the backend's", map[string]string{ParamMemory: "1G"}, map[string]string{SettingLoadLimit: "1.5"}, 1500 * time.Millisecond, false},
		{"the model's", map[string]string{ParamLoadLimit: "0"}, map[string]string{SettingLoadLimit: "1.5"}, 0, false},
		{"no number", map[string]string{ParamLoadLimit: "soon"}, nil, 0, true},
		{"NaN", nil, map[string]string{SettingLoadLimit: "NaN"}, 0, true},
		{"below zero", map[string]string{ParamLoadLimit: "-1"}, nil, 0, true},
	} {
		got, err := LoadLimitOf(c.parameters, c.settings)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}
