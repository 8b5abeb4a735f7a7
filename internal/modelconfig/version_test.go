package modelconfig

import (
	"slices"
	"testing"
)

func TestVersions(t *testing.T) {
	available := []int64{10, 1, 3}
	for _, test := range []struct {
		policy         VersionPolicy
		serve, missing []int64
	}{
		{VersionPolicy{Latest: 1}, []int64{10}, nil},
		{VersionPolicy{Latest: 2}, []int64{3, 10}, nil},
		{VersionPolicy{Latest: 9}, []int64{1, 3, 10}, nil},
		{VersionPolicy{All: true}, []int64{1, 3, 10}, nil},
		{VersionPolicy{Specific: []int64{3, 2, 1, 3}}, []int64{1, 3}, []int64{2}},
	} {
		serve, missing := test.policy.Select(available)
		if !slices.Equal(serve, test.serve) || !slices.Equal(missing, test.missing) {
			t.Errorf("%+v: got %v, %v", test.policy, serve, missing)
		}
	}
}
