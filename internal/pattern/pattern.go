// Package pattern are regular expressions that are compiled when they are first used.
//
// Place: foundation, on nothing of ours. Promise: a program that never asks pays nothing: a launcher is started for every
// replica, and each would compile what only the server needs. Enemies: one that is wrong and is noticed when it is used: in
// tests all are compiled at once.
package pattern

import (
	"regexp"
	"sync"
	"testing"
)

// Pattern is a regular expression. Safe for concurrent use.
type Pattern struct{ compiled func() *regexp.Regexp }

// New remembers one; it panics when it is used and wrong.
func New(text string) *Pattern {
	p := &Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
	if testing.Testing() {
		p.compiled()
	}
	return p
}

func (p *Pattern) MatchString(s string) bool {
	return p.compiled().MatchString(s)
}

func (p *Pattern) FindStringSubmatch(s string) []string {
	return p.compiled().FindStringSubmatch(s)
}

func (p *Pattern) FindSubmatch(b []byte) [][]byte {
	return p.compiled().FindSubmatch(b)
}

func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

func (p *Pattern) FindAllString(s string, n int) []string {
	return p.compiled().FindAllString(s, n)
}

func (p *Pattern) FindAllStringIndex(s string, n int) [][]int {
	return p.compiled().FindAllStringIndex(s, n)
}

func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

func (p *Pattern) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return p.compiled().FindAllStringSubmatchIndex(s, n)
}

func (p *Pattern) ReplaceAllString(s, by string) string {
	return p.compiled().ReplaceAllString(s, by)
}

func (p *Pattern) ReplaceAllStringFunc(s string, by func(string) string) string {
	return p.compiled().ReplaceAllStringFunc(s, by)
}
