// Package node is a fixture.
package node
