// Package meta is a fixture.
package meta
