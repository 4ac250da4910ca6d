// Package kinds knows which kinds of work a program has: their rows, their doors and their controllers.
//
// Place: layer 6, assembly; app stands on it. Promise: a program that brings a kind of its own registers it here, once, and
// nothing else is changed for it. Enemies: a kind that is half known.
package kinds
