package openapi

import (
	"fmt"
	"strings"

	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// described is what the document has of one model.
type described struct {
	// operations by what follows the model's name in their path.
	operations map[string]object
	schemas    map[string]object
	cfg        *modelconfig.Config
	// id begins the names of the model's operations and schemas, which may not have
	// all characters that the names of models have.
	id    string
	limit int
}

// describe describes the n-th model; inputs of more than limit elements have no
// example.
func describe(cfg *modelconfig.Config, n, limit int) *described {
	d := &described{operations: map[string]object{}, schemas: map[string]object{}, cfg: cfg, id: identifier(cfg.Name, n), limit: limit}
	if !d.sequential() {
		d.describeGenerate()
	}
	if !cfg.Decoupled { // any number of responses: events or gRPC's streams carry them
		d.describeInfer()
	}
	return d
}

// sequential reports whether each request belongs to a sequence that its client
// names, which flat JSON cannot: all its members are inputs or the model's parameters.
func (d *described) sequential() bool { return d.cfg.Sequence != nil && !d.cfg.Sequence.Iterative }

func (d *described) describeGenerate() {
	d.schemas[d.id+"_GenerateRequest"] = d.generateRequest()
	d.schemas[d.id+"_GenerateResponse"] = d.generateResponse()
	stream := d.operation("generate_stream", "flat JSON, each response an event", "GenerateRequest", d.generateExample())
	stream["responses"].(object)["200"] = object{
		"description": "An event for each response: `data:` and JSON",
		"content":     object{"text/event-stream": object{"schema": reference(d.id + "_GenerateResponse")}},
	}
	d.operations["/generate_stream"] = stream
	if d.cfg.Decoupled {
		return
	}
	generate := d.operation("generate", "flat JSON", "GenerateRequest", d.generateExample())
	generate["responses"].(object)["200"] = answered(d.id + "_GenerateResponse")
	d.operations["/generate"] = generate
}

func (d *described) describeInfer() {
	d.schemas[d.id+"_InferRequest"] = d.inferRequest()
	d.schemas[d.id+"_InferResponse"] = d.inferResponse()
	infer := d.operation("infer", "tensors", "InferRequest", d.inferExample())
	infer["responses"].(object)["200"] = answered(d.id + "_InferResponse")
	infer["requestBody"].(object)["content"].(object)["application/octet-stream"] = object{"schema": object{
		"type": "string", "format": "binary", "description": "The JSON, and behind it the bytes of tensors with `binary_data_size`",
	}}
	infer["parameters"] = []any{object{"$ref": "#/components/parameters/header_length"}}
	d.operations["/infer"] = infer
}

// identifier is a name of letters, digits and underscores. Models whose names differ
// in other characters alone are told apart by their place n.
func identifier(name string, n int) string {
	clean := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_' {
			return r
		}
		return '_'
	}, name)
	if clean != name {
		return fmt.Sprintf("model%d_%s", n, clean)
	}
	return "model_" + clean
}

func reference(schema string) object { return object{"$ref": "#/components/schemas/" + schema} }

func answered(schema string) object {
	return object{"description": "The model's response", "content": object{"application/json": object{"schema": reference(schema)}}}
}

// operation is a POST to the model. example may be nil, where there is none.
func (d *described) operation(verb, how, request string, example object) object {
	media := object{"schema": reference(d.id + "_" + request)}
	if example != nil {
		media["example"] = example
	}
	responses := object{}
	for status, name := range map[string]string{
		"400": "BadRequest", "401": "Unauthorized", "403": "Forbidden", "404": "NotFound", "503": "Unavailable",
	} {
		responses[status] = object{"$ref": "#/components/responses/" + name}
	}
	return object{
		"tags": []any{"inference"}, "operationId": verb + "_" + d.id,
		"summary":     d.cfg.Name + ": " + how,
		"description": d.facts(),
		"requestBody": object{"required": true, "content": object{"application/json": media}},
		"responses":   responses,
	}
}

// facts says in words what a schema cannot say.
func (d *described) facts() string {
	var facts []string
	if d.cfg.MaxBatchSize > 0 {
		facts = append(facts, fmt.Sprintf("The first dimension is the batch, at most %d.", d.cfg.MaxBatchSize))
	}
	if d.cfg.Decoupled {
		facts = append(facts, "A request may have any number of responses.")
	}
	if d.sequential() {
		facts = append(facts, "Requests belong to sequences: `sequence_id`, `sequence_start` and `sequence_end` are parameters.")
	}
	for i := range d.cfg.Inputs {
		if in := &d.cfg.Inputs[i]; binaryOnly(in.Datatype) {
			facts = append(facts, fmt.Sprintf("Input '%s' is %s, which JSON does not carry: send it as bytes.", in.Name, in.Datatype))
		}
	}
	for i := range d.cfg.Outputs {
		if out := &d.cfg.Outputs[i]; binaryOnly(out.Datatype) {
			facts = append(facts, fmt.Sprintf("Output '%s' is %s, which JSON does not carry: ask for it as bytes.", out.Name, out.Datatype))
		}
	}
	return strings.Join(facts, " ")
}

// binaryOnly reports whether tensors of d go as bytes alone.
func binaryOnly(d tensor.Datatype) bool { return d == tensor.FP16 || d == tensor.BF16 }

// required are the inputs that a request cannot do without.
func (d *described) required() []*modelconfig.Input {
	var all []*modelconfig.Input
	for i := range d.cfg.Inputs {
		if !d.cfg.Inputs[i].Optional {
			all = append(all, &d.cfg.Inputs[i])
		}
	}
	return all
}

// shown are the inputs of an example: those that are needed, else all.
func (d *described) shown() []*modelconfig.Input {
	if needed := d.required(); len(needed) > 0 {
		return needed
	}
	all := make([]*modelconfig.Input, len(d.cfg.Inputs))
	for i := range d.cfg.Inputs {
		all[i] = &d.cfg.Inputs[i]
	}
	return all
}

func (d *described) shape(dims tensor.Shape) tensor.Shape { return kserve.MetadataShape(d.cfg, dims) }
