package resolver

import (
	"reflect"
	"strings"
	"testing"
)

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
		if f.Type.Kind() == reflect.Bool {
			continue // no value is out of bounds
		}
		c := DefaultConfig()
		if to := reflect.ValueOf(&c).Elem().Field(i); to.Kind() == reflect.Slice {
			to.Set(reflect.ValueOf([]string{"-1"}))
		} else {
			to.SetInt(-1)
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "resolver."+key+" ") {
			t.Errorf("%s = -1: got %v", key, err)
		}
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%s = -1: New accepts it", key)
		}
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil || !strings.Contains(err.Error(), "Deps.Local") {
		t.Errorf("without Deps: %v", err)
	}
}
