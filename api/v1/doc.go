// Package v1 is the vocabulary: one file per kind with its types, defaults and validation, and
// the table of kinds from which store, REST, OpenAPI and CLI follow.
//
// Place: layer 1; imports foundation only, and the Kubernetes quantity parser and a YAML parser.
// Promise: every object is metadata, spec and status; users write spec, controllers write
// status; what is not understood is refused with its path and what would be right, in zh and en.
// Enemies: fields that are accepted and ignored, bare numbers without units, second spellings.
package v1
