package object

import (
	"reflect"
	"strings"
	"testing"
)

// TestConfig sets each field out of its bounds: the error names its key.
func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		key := f.Tag.Get("koanf")
		if key == "-" { // the Params
			continue
		}
		c := DefaultConfig()
		reflect.ValueOf(&c).Elem().Field(i).SetInt(-1)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "object."+key+" ") {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}
