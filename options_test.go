package neso

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/tracing"
)

// TestOptionsAreHandedOn: each setting of the engine, and of what is below it, comes
// from the server, by its name or by a line of engineOptions. So one that is forgotten
// on its way is found.
func TestOptionsAreHandedOn(t *testing.T) {
	// elsewhere are set where what they are made of has been started; those of the
	// second line by package lifecycle, and those of the third by tests alone.
	elsewhere := []string{
		"GPUs", "RateLimiter", "SharedMemory",
		"GivenUp",
		"TempDir", "DrainTimeout", "LoadPatience",
	}
	s := &Server{}
	set(reflect.ValueOf(s).Elem())
	s.ModelLoads = "never" // a word that means something
	s.Libraries = struct{ backend.Libraries }{}
	r := &running{customs: metrics.NewCustoms(), pool: memory.New(memory.Options{}), tracer: &tracing.Tracer{}, log: slog.Default()}
	r.followers.live = map[string]*followed{"x": {}}
	all, none := s.engineOptions(r, metrics.Config{}), (&Server{}).engineOptions(&running{}, metrics.Config{})
	missing(reflect.ValueOf(all), reflect.ValueOf(none), func(name string) {
		if !slices.Contains(elsewhere, name) {
			t.Errorf("nothing of the server sets the option %s", name)
		}
	})
}

// set gives every field of a struct another value than its zero value, as far as that
// can be done without knowing what it means.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				set(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default: // what has a meaning: interfaces, functions, pointers
	}
}

// missing calls say for the fields that are the same in both, those of embedded structs
// included.
func missing(all, none reflect.Value, say func(name string)) {
	for i := range all.NumField() {
		field := all.Type().Field(i)
		switch {
		case field.Anonymous:
			missing(all.Field(i), none.Field(i), say)
		case field.Type.Kind() == reflect.Func:
			if all.Field(i).IsNil() {
				say(field.Name)
			}
		case reflect.DeepEqual(all.Field(i).Interface(), none.Field(i).Interface()):
			say(field.Name)
		}
	}
}
