package durability

import (
	"maps"
	"strings"
	"testing"
	"time"

	"allium/store/cluster/plan"
	"allium/store/meta"
)

// TestConfig: each setting that is out of its bounds is named.
func TestConfig(t *testing.T) {
	t.Parallel()
	const id = "12D3KooWDtghzCuhA4hdF7Yw9Xbx8hpuHAg4g9H48k7HbEdhhahA"
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // part of the error; empty: none
	}{
		"default": {func(*Config) {}, ""},
		"all": {func(c *Config) { c.Members, c.Targets, c.Offer = []string{id}, []string{"a=3", "=2"}, 1 },
			""},
		"no peer": {func(c *Config) { c.Members = []string{"x"} },
			`durability.members has "x", which is no peer id`},
		"many members": {func(c *Config) { c.Members = make([]string, plan.MaxMembers+1) }, "at most 1024"},
		"negative":     {func(c *Config) { c.Offer = -1 }, "durability.offer"},
		"short period": {func(c *Config) { c.AuditPeriod = time.Second }, "durability.audit_period is 1s"},
		"long period":  {func(c *Config) { c.AuditPeriod = 1000 * time.Hour }, "durability.audit_period is 1000h"},
		"short grace":  {func(c *Config) { c.Grace = 0 }, "durability.grace is 0s"},
		"long grace":   {func(c *Config) { c.Grace = 25 * time.Hour }, "durability.grace is 25h"},
		"no number": {func(c *Config) { c.Targets = []string{"a"} },
			`durability.targets has "a": want label=copies`},
		"no copies":     {func(c *Config) { c.Targets = []string{"a=0"} }, "1 to 32 copies"},
		"many copies":   {func(c *Config) { c.Targets = []string{"a=33"} }, "1 to 32 copies"},
		"huge":          {func(c *Config) { c.Targets = []string{"a=99999999999999999999"} }, "1 to 32 copies"},
		"shards":        {func(c *Config) { c.Targets = []string{"a=6+3"} }, ""},
		"no parity":     {func(c *Config) { c.Targets = []string{"a=6+0"} }, "such as 6+3"},
		"one data":      {func(c *Config) { c.Targets = []string{"a=1+2"} }, "ask for 3 copies"},
		"many shards":   {func(c *Config) { c.Targets = []string{"a=60+5"} }, "at most 64"},
		"twice":         {func(c *Config) { c.Targets = []string{"a=2", "a=3"} }, "a label comes once"},
		"the cluster's": {func(c *Config) { c.Targets = []string{"cluster=2"} }, "none of the cluster's"},
		"bad label":     {func(c *Config) { c.Targets = []string{strings.Repeat("x", 300) + "=2"} }, "label"},
	} {
		c := Default()
		test.change(&c)
		err := c.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	c := Testnet()
	c.Targets, c.Grace = []string{"a=b=3", "=4+2"}, time.Minute
	copies, err := c.Copies()
	want := map[string]meta.Target{"a=b": {Copies: 3}, "": {Data: 4, Parity: 2}}
	if err != nil || !maps.Equal(copies, want) {
		t.Errorf("%v, %v; want %v", copies, err, want)
	}
	p := c.Params(plan.DefaultParams())
	if p.Grace != time.Minute || p.AuditPeriod != 10*time.Second || p.Tick != time.Minute {
		t.Errorf("the times are %+v", p)
	}
}
