package python

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
)

// settings are the --backend-config=python,... values that mean something
// here.
type settings struct {
	stubTimeout time.Duration
	// limit bounds one execute of the models that say nothing themselves; 0 is no
	// bound.
	limit time.Duration
	// ignored are the given settings that are checked and have no effect, sorted.
	ignored []string
}

// ignoredSettings are those of Triton's that are checked and have no effect
// here, with the reason.
var ignoredSettings = map[string]string{
	"shm-default-byte-size":  "shared memory grows on demand",
	"shm-growth-byte-size":   "shared memory grows on demand",
	"shm-region-prefix-name": "shared memory has no name",
	"shm_message_queue_size": "messages go over a socket",
	"thread-pool-size":       "calls out of a model need no threads",
}

const (
	settingTimeout = "stub-timeout-seconds"
	settingLimit   = "execution-timeout-seconds"
)

// knownSettings are those of all backends whose models run in Python workers.
func knownSettings() []string {
	return slices.AppendSeq([]string{settingTimeout, settingLimit, limits.SettingLoadLimit}, maps.Keys(ignoredSettings))
}

func parseSettings(values map[string]string) (settings, error) {
	s := settings{stubTimeout: 30 * time.Second}
	number := func(key string, least int64, complaint string, use func(int64)) error {
		text, ok := values[key]
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return backend.Errorf(backend.InvalidArg, "%s must be an integer, found '%s'", key, text)
		}
		if n < least {
			return backend.Errorf(backend.InvalidArg, "%s", complaint)
		}
		if use != nil {
			use(n)
		}
		return nil
	}
	for _, check := range []struct {
		key       string
		least     int64
		complaint string
		use       func(int64)
	}{
		{"shm-default-byte-size", 1 << 20, "shm-default-byte-size can't be smaller than 4 MiBs", nil},
		{"shm-growth-byte-size", 1, "shm-growth-byte-size can't be smaller than or equal to zero.", nil},
		{settingTimeout, 1, "stub-timeout-seconds can't be smaller than or equal to zero.", func(n int64) {
			s.stubTimeout = time.Duration(min(n, 1<<31)) * time.Second
		}},
		{"shm_message_queue_size", 1, "shm_message_queue_size can't be smaller than or equal to zero.", nil},
		{"thread-pool-size", 1, "thread-pool-size can't be less than 1.", nil},
		{"default-max-batch-size", 0, "default-max-batch-size can't be smaller than zero.", nil},
	} {
		if err := number(check.key, check.least, check.complaint, check.use); err != nil {
			return settings{}, err
		}
	}
	if prefix, ok := values["shm-region-prefix-name"]; ok && prefix == "" {
		return settings{}, backend.Errorf(backend.InvalidArg, "shm-region-prefix-name must be at least one character long.")
	}
	if text, ok := values[settingLimit]; ok {
		if s.limit, ok = limits.ParseSeconds(text); !ok {
			return settings{}, backend.Errorf(backend.InvalidArg, "%s must be a number of seconds from 0 on, found '%s'", settingLimit, text)
		}
	}
	if _, err := limits.LoadLimitOf(nil, values); err != nil {
		return settings{}, err
	}
	for name := range values {
		if ignoredSettings[name] != "" {
			s.ignored = append(s.ignored, name)
		}
	}
	slices.Sort(s.ignored)
	return s, nil
}
