package edit

import (
	"fmt"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// Shape is what kind of value a field of the configuration has.
type Shape struct{ List, Map, Message bool }

// ShapeOf returns that of a field, whose path leads through messages, lists of them and
// maps; behind a map stands a key.
func ShapeOf(path []string) (Shape, error) {
	m := (&inferencepb.ModelConfig{}).ProtoReflect().Descriptor()
	for i := 0; i < len(path); i++ {
		fd := m.Fields().ByTextName(path[i])
		if fd == nil {
			return Shape{}, fmt.Errorf("a configuration has no field %q", strings.Join(path[:i+1], "."))
		}
		value := fd
		if fd.IsMap() {
			if i == len(path)-1 {
				return Shape{Map: true}, nil
			}
			i++ // the key
			value = fd.MapValue()
		}
		if i == len(path)-1 {
			return Shape{List: value.IsList(), Message: value.Message() != nil}, nil
		}
		if value.Message() == nil {
			return Shape{}, fmt.Errorf("the field %q has no fields of its own", strings.Join(path[:i+1], "."))
		}
		m = value.Message()
	}
	return Shape{Message: true}, nil
}
