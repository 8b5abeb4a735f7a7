package analyzer

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/tune/knobs"
)

// mostValues bounds the values of one field.
const mostValues = 10000

// sweeps reads model_config_parameters: fields of the configuration, each with one value or
// a list of those that it may have, on every level.
func (f *File) sweeps(v *yaml.Node, m *Model) error {
	return f.each(v, func(k, v *yaml.Node) error {
		if k.Value == "parameters" { // each by itself: those that are not named stay
			return f.each(v, func(k, v *yaml.Node) error {
				values, err := f.expand([]string{"parameters", k.Value}, k, v)
				if err != nil {
					return err
				}
				field := knobs.Field{Name: edit.ParameterPrefix + k.Value}
				for _, value := range values {
					var p struct {
						Text json.RawMessage `json:"string_value"`
					}
					if err := json.Unmarshal(value, &p); err != nil || p.Text == nil {
						return f.fault(v, "expected string_value with a text, or several")
					}
					if p.Text[0] != '"' { // a number, which YAML has without quotes
						p.Text, _ = json.Marshal(string(p.Text)) //nolint:errchkjson // a text
					}
					field.Values = append(field.Values, p.Text)
				}
				return f.vary(m, k, field)
			})
		}
		values, err := f.expand([]string{k.Value}, k, v)
		if err != nil {
			return err
		}
		return f.vary(m, k, knobs.Field{Name: k.Value, Values: values})
	})
}

func (f *File) vary(m *Model, k *yaml.Node, field knobs.Field) error {
	for _, v := range field.Values {
		if _, err := edit.Text(nil, "", []edit.Change{{Field: field.Name, Value: v}}); err != nil {
			return f.fault(k, "%v", err)
		}
	}
	m.Vary = append(m.Vary, field)
	return nil
}

// expand returns every value, in JSON, that a node stands for.
func (f *File) expand(path []string, k, v *yaml.Node) ([]json.RawMessage, error) {
	if v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	if f.depth++; f.depth > deepest {
		return nil, f.fault(k, "more than %d values within each other", deepest)
	}
	defer func() { f.depth-- }()
	shape, err := edit.ShapeOf(path)
	if err != nil {
		return nil, f.fault(k, "%v", err)
	}
	isList := v.Kind == yaml.SequenceNode
	nested := isList && len(v.Content) > 0 && v.Content[0].Kind == yaml.SequenceNode
	switch {
	case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
		return []json.RawMessage{json.RawMessage("null")}, nil
	case isList && (!shape.List || nested): // several values
		var all []json.RawMessage
		for _, n := range v.Content {
			some, err := f.expand(path, k, n)
			if err != nil {
				return nil, err
			}
			if all = append(all, some...); len(all) > mostValues {
				return nil, f.fault(v, "more than %d values", mostValues)
			}
		}
		return all, nil
	case isList:
		return f.product(v, func(i int) ([]json.RawMessage, error) {
			if shape.Message {
				return f.fields(path, k, v.Content[i])
			}
			return f.scalar(v.Content[i])
		}, func(parts []json.RawMessage) (json.RawMessage, error) { return json.Marshal(parts) })
	}
	one := f.scalar
	if shape.Message || shape.Map {
		one = func(v *yaml.Node) ([]json.RawMessage, error) { return f.fields(path, k, v) }
	}
	values, err := one(v)
	for i := range values {
		if shape.List { // of one
			values[i] = append(append(json.RawMessage("["), values[i]...), ']')
		}
	}
	return values, err
}

// fields are the values of a message, or a map: of each key, every value with every one of
// the others.
func (f *File) fields(path []string, k, v *yaml.Node) ([]json.RawMessage, error) {
	if v.Kind != yaml.MappingNode {
		return nil, f.fault(v, "%s: expected keys with values, found %s", k.Value, what(v))
	}
	return f.product(v, func(i int) ([]json.RawMessage, error) {
		key := v.Content[2*i]
		return f.expand(append(slices.Clip(path), key.Value), key, v.Content[2*i+1])
	}, func(parts []json.RawMessage) (json.RawMessage, error) {
		m := map[string]json.RawMessage{}
		for i, p := range parts {
			m[v.Content[2*i].Value] = p
		}
		return json.Marshal(m)
	})
}

// product makes one value of every combination of the parts' values.
func (f *File) product(
	v *yaml.Node, values func(i int) ([]json.RawMessage, error), join func([]json.RawMessage) (json.RawMessage, error),
) ([]json.RawMessage, error) {
	n := len(v.Content)
	if v.Kind == yaml.MappingNode {
		n /= 2
	}
	combinations := [][]json.RawMessage{nil}
	for i := range n {
		some, err := values(i)
		if err != nil {
			return nil, err
		}
		if len(combinations)*len(some) > mostValues {
			return nil, f.fault(v, "more than %d values", mostValues)
		}
		var next [][]json.RawMessage
		for _, c := range combinations {
			for _, s := range some {
				next = append(next, append(slices.Clip(c), s))
			}
		}
		combinations = next
	}
	var all []json.RawMessage
	for _, c := range combinations {
		if c == nil {
			c = []json.RawMessage{}
		}
		joined, err := join(c)
		if err != nil {
			return nil, f.fault(v, "%v", err)
		}
		all = append(all, joined)
	}
	return all, nil
}

func (f *File) scalar(v *yaml.Node) ([]json.RawMessage, error) {
	if v.Kind != yaml.ScalarNode {
		return nil, f.fault(v, "expected a value, found %s", what(v))
	}
	switch v.Tag {
	case "!!bool", "!!int", "!!float":
		var any any
		if err := v.Decode(&any); err == nil {
			text, err := json.Marshal(any)
			if err != nil {
				return nil, f.fault(v, "expected a number, found %s", what(v))
			}
			return []json.RawMessage{text}, nil
		}
	}
	text, err := json.Marshal(v.Value)
	return []json.RawMessage{text}, err
}
