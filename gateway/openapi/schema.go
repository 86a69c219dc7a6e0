package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Schema is a JSON Schema (2020-12), as OpenAPI 3.1 has them.
type Schema map[string]any

// schemas makes schemas of Go types, by the rules of encoding/json. Structs
// with a name become components. Their comments become descriptions.
type schemas struct {
	words  map[string]string   // "Type" and "Type.Field" to their comments
	values map[string][]string // of the string types with constants
	made   map[string]Schema   // components
}

func newSchemas() (*schemas, error) {
	said, err := readComments()
	if err != nil {
		return nil, err
	}
	maps.Copy(said.Words, foreignWords)
	return &schemas{words: said.Words, values: said.Values, made: map[string]Schema{}}, nil
}

var (
	rootType = reflect.TypeFor[b3.Root]()
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// of is the schema of a type. A closed one lets no other members be: that holds
// for requests.
func (s *schemas) of(t reflect.Type, closed bool) (Schema, error) {
	switch t {
	case rootType:
		return Schema{
			"type": "string", "pattern": "^b3:[0-9a-f]{64}$", "description": "An address: the BLAKE3 of the bytes.",
		}, nil
	case timeType:
		return Schema{"type": "string", "format": "date-time"}, nil
	case rawType:
		return Schema{}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return Schema{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer", "format": "int64"}, nil
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "format": "int64", "minimum": 0}, nil
	case reflect.Float64:
		return Schema{"type": "number", "format": "double"}, nil
	case reflect.String:
		if v := s.values[t.Name()]; t.Name() != "string" && len(v) > 0 {
			return Schema{"type": "string", "enum": v}, nil
		}
		return Schema{"type": "string"}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Schema{"type": "string", "contentEncoding": "base64"}, nil
		}
		items, err := s.of(t.Elem(), closed)
		return Schema{"type": "array", "items": items}, err
	case reflect.Array:
		items, err := s.of(t.Elem(), closed)
		return Schema{"type": "array", "items": items, "minItems": t.Len(), "maxItems": t.Len()}, err
	case reflect.Pointer: // its member says whether it may be null
		return s.of(t.Elem(), closed)
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t, closed)
		}
		if _, ok := s.made[t.Name()]; !ok {
			s.made[t.Name()] = Schema{} // so that a type may hold itself
			made, err := s.object(t, closed)
			if err != nil {
				return nil, err
			}
			s.made[t.Name()] = made
		}
		return Schema{"$ref": "#/components/schemas/" + t.Name()}, nil
	}
	return nil, fmt.Errorf("gateway: there is no schema for a %s", t)
}

// object is the schema of a struct.
func (s *schemas) object(t reflect.Type, closed bool) (Schema, error) {
	members, required := Schema{}, []string{}
	if err := s.members(t, closed, members, &required); err != nil {
		return nil, err
	}
	made := Schema{"type": "object"}
	if len(members) > 0 {
		made["properties"] = members
	}
	if len(required) > 0 {
		made["required"] = required
	}
	if closed || len(members) == 0 {
		made["additionalProperties"] = false
	}
	if text := s.words[t.Name()]; text != "" {
		made["description"] = text
	}
	if v, ok := examples[t]; ok {
		made["examples"] = []any{v}
	}
	return made, nil
}

func (s *schemas) members(t reflect.Type, closed bool, members Schema, required *[]string) error {
	for f := range t.Fields() {
		if f.Anonymous {
			if err := s.members(f.Type, closed, members, required); err != nil {
				return err
			}
			continue
		}
		name, rest, tagged := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && !tagged {
			return fmt.Errorf("gateway: %s.%s has no name in JSON", t, f.Name)
		}
		made, err := s.of(f.Type, closed)
		if err != nil {
			return err
		}
		optional := slices.ContainsFunc(strings.Split(rest, ","), func(o string) bool {
			return o == "omitempty" || o == "omitzero"
		})
		switch {
		case f.Type.Kind() == reflect.String && f.Name == "Reason":
			made = Schema{"$ref": "#/components/schemas/Outcome"}
			s.made["Outcome"] = Schema{
				"type": "string", "enum": failures(), "description": "What an error means, see status.md.",
			}
		case f.Type.Kind() == reflect.Pointer && !optional:
			made = Schema{"anyOf": []Schema{made, {"type": "null"}}}
		}
		if text := s.words[t.Name()+"."+f.Name]; text != "" {
			made["description"] = text
		}
		members[name] = made
		if !optional {
			*required = append(*required, name)
		}
	}
	return nil
}

// failures are the labels of the outcomes that are errors.
func failures() []string {
	var labels []string
	for _, o := range status.All() {
		if !o.Success() {
			labels = append(labels, o.String())
		}
	}
	return labels
}
