// Package cluster is a fixture.
package cluster
