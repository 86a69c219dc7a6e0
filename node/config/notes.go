package config

import "fmt"

// Notes returns a sentence for each setting that has no effect because of another one.
func (l Loaded) Notes() []string {
	port, addrs := l.Sources["listen.port"], l.Sources["listen.addrs"]
	if port == FromDefault || addrs == FromDefault {
		return nil
	}
	return []string{fmt.Sprintf("listen.port (from the %s) has no effect: listen.addrs (from the %s) names the ports",
		sourceName[port], sourceName[addrs])}
}
