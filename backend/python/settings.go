package python

import (
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
)

// settings are the --backend-config=python,... values that mean something
// here. The sizes and names of Triton's shared memory are checked and otherwise
// without effect: memory grows on demand and has no name.
type settings struct {
	stubTimeout time.Duration
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
		{"stub-timeout-seconds", 1, "stub-timeout-seconds can't be smaller than or equal to zero.", func(n int64) {
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
	return s, nil
}
