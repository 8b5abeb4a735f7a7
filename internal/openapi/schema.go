package openapi

import (
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// element is the schema of one element in JSON.
func element(d tensor.Datatype) object {
	integer := func(minimum, maximum int64) object {
		return object{"type": "integer", "minimum": minimum, "maximum": maximum}
	}
	switch d {
	case tensor.Bool:
		return object{"type": "boolean"}
	case tensor.Int8:
		return integer(-1<<7, 1<<7-1)
	case tensor.Int16:
		return integer(-1<<15, 1<<15-1)
	case tensor.Int32:
		return integer(-1<<31, 1<<31-1)
	case tensor.Int64:
		return object{"type": "integer", "format": "int64"}
	case tensor.Uint8:
		return integer(0, 1<<8-1)
	case tensor.Uint16:
		return integer(0, 1<<16-1)
	case tensor.Uint32:
		return integer(0, 1<<32-1)
	case tensor.Uint64:
		return object{"type": "integer", "minimum": 0}
	case tensor.Bytes:
		return object{"type": "string"}
	default:
		return object{"type": "number"}
	}
}

// data is the schema of a tensor's elements: flat, or nested as its shape is.
func data(d tensor.Datatype) object {
	return object{
		"type": "array", "description": "In row-major order, flat or nested",
		"items": object{"anyOf": []any{element(d), object{"type": "array", "items": object{}}}},
	}
}

// extents is the schema of a shape whose dimensions of -1 vary.
func extents(shape tensor.Shape, varies bool) object {
	all := make([]any, len(shape))
	for i, n := range shape {
		if n < 0 || varies {
			all[i] = object{"type": "integer", "minimum": 0}
		} else {
			all[i] = object{"type": "integer", "const": n}
		}
	}
	s := object{"type": "array", "minItems": len(all), "maxItems": len(all), "items": object{"type": "integer"}}
	if len(all) > 0 {
		s["prefixItems"] = all
	}
	return s
}

// tensorSchema is that of an input or output of a request for inference.
func tensorSchema(name string, d tensor.Datatype, shape object, more ...string) object {
	required := []any{"name", "datatype", "shape"}
	for _, m := range more {
		required = append(required, m)
	}
	return object{
		"type": "object", "title": name, "required": required,
		"properties": object{
			"name": object{"const": name, "type": "string"}, "datatype": object{"const": d.String(), "type": "string"}, "shape": shape,
			"parameters": object{"type": "object", "additionalProperties": true}, "data": data(d),
		},
	}
}

// anyOf is the one schema, or the choice between several.
func anyOf(all []any) any {
	if len(all) == 1 {
		return all[0]
	}
	return object{"anyOf": all}
}

func (d *described) inferRequest() object {
	inputs := make([]any, len(d.cfg.Inputs))
	for i := range d.cfg.Inputs {
		in := &d.cfg.Inputs[i]
		inputs[i] = tensorSchema(in.Name, in.Datatype, extents(d.shape(in.Dims), in.AllowRagged))
	}
	list := object{"type": "array", "minItems": len(d.required()), "maxItems": len(inputs)}
	if len(inputs) > 0 {
		list["items"] = anyOf(inputs)
	}
	return object{
		"type": "object", "required": []any{"inputs"},
		"properties": object{
			"id": object{"type": "string"}, "parameters": reference("Parameters"), "inputs": list,
			"outputs": object{"type": "array", "items": d.requestedOutput(), "description": "All outputs, without it"},
		},
	}
}

func (d *described) requestedOutput() object {
	names := make([]any, len(d.cfg.Outputs))
	for i := range d.cfg.Outputs {
		names[i] = d.cfg.Outputs[i].Name
	}
	name := object{"type": "string"}
	if len(names) > 0 {
		name["enum"] = names
	}
	return object{
		"type": "object", "required": []any{"name"},
		"properties": object{"name": name, "parameters": object{"type": "object", "additionalProperties": true}},
	}
}

func (d *described) inferResponse() object {
	outputs := make([]any, len(d.cfg.Outputs))
	for i := range d.cfg.Outputs {
		out := &d.cfg.Outputs[i]
		// A model may give other shapes than its configuration says.
		outputs[i] = tensorSchema(out.Name, out.Datatype, extents(d.shape(out.Dims), true))
	}
	list := object{"type": "array"}
	if len(outputs) > 0 {
		list["items"] = anyOf(outputs)
	}
	return object{
		"type": "object", "required": []any{"model_name", "model_version", "outputs"},
		"properties": object{
			"model_name": object{"type": "string"}, "model_version": object{"type": "string"}, "id": object{"type": "string"},
			"parameters": object{"type": "object", "additionalProperties": true}, "outputs": list,
		},
	}
}

// plain is a tensor in flat JSON: a value, or a list of them.
func plain(d tensor.Datatype) object {
	return object{"anyOf": []any{element(d), object{"type": "array", "items": element(d)}}}
}

func (d *described) generateRequest() object {
	properties, required := object{"id": object{"type": "string"}}, []any{}
	for i := range d.cfg.Inputs {
		properties[d.cfg.Inputs[i].Name] = plain(d.cfg.Inputs[i].Datatype)
	}
	for _, in := range d.required() {
		required = append(required, in.Name)
	}
	return object{
		"type": "object", "properties": properties, "required": required,
		"additionalProperties": true, "description": "Members that are no inputs are parameters of the request",
	}
}

func (d *described) generateResponse() object {
	properties := object{"model_name": object{"type": "string"}, "model_version": object{"type": "string"}, "id": object{"type": "string"}}
	for i := range d.cfg.Outputs {
		properties[d.cfg.Outputs[i].Name] = plain(d.cfg.Outputs[i].Datatype)
	}
	return object{"type": "object", "properties": properties, "additionalProperties": true}
}

const (
	// exampleElements bounds an example's input where there are many models: the
	// document of a thousand models shall stay readable.
	exampleElements = 1000
	// loneExampleElements bounds it in the document of one model, which has room for
	// an image: 600 kB of zeros.
	loneExampleElements = 300_000
)

// sample is the shape of an example, one where a dimension varies, and how many
// elements it has; false if there are more than limit.
func (d *described) sample(in *modelconfig.Input) (tensor.Shape, int, bool) {
	shape, n := append(tensor.Shape{}, d.shape(in.Dims)...), int64(1)
	for i := range shape {
		if shape[i] < 0 {
			shape[i] = 1
		}
		if shape[i] > int64(d.limit) || n*shape[i] > int64(d.limit) {
			return nil, 0, false
		}
		n *= shape[i]
	}
	return shape, int(n), !binaryOnly(in.Datatype)
}

// values are n elements of an example.
func values(d tensor.Datatype, n int) []any {
	var one any = 0
	switch d {
	case tensor.Bool:
		one = false
	case tensor.Bytes:
		one = "text"
	default:
	}
	all := make([]any, n)
	for i := range all {
		all[i] = one
	}
	return all
}

// exampleParameters are what a request of its own needs.
func (d *described) exampleParameters() object {
	if !d.sequential() {
		return nil
	}
	var id any = 1
	for _, c := range d.cfg.Sequence.Controls {
		if c.Kind == "CONTROL_SEQUENCE_CORRID" && c.Datatype == tensor.Bytes {
			id = "one"
		}
	}
	return object{"sequence_id": id, "sequence_start": true, "sequence_end": true}
}

// inferExample is a request that the model takes, or nil where JSON cannot carry it
// or it would be too long.
func (d *described) inferExample() object {
	inputs := []any{}
	for _, in := range d.shown() {
		shape, n, ok := d.sample(in)
		if !ok {
			return nil
		}
		inputs = append(inputs, object{"name": in.Name, "datatype": in.Datatype.String(), "shape": shape, "data": values(in.Datatype, n)})
	}
	example := object{"inputs": inputs}
	if p := d.exampleParameters(); p != nil {
		example["parameters"] = p
	}
	return example
}

// generateExample is the same in flat JSON.
func (d *described) generateExample() object {
	example := object{}
	for _, in := range d.shown() {
		_, n, ok := d.sample(in)
		if !ok {
			return nil
		}
		example[in.Name] = values(in.Datatype, n)
	}
	return example
}
