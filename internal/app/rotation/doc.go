// Package rotation owns the keys of a data folder: link.key and secret.key, what was sealed and signed with them, and their replacement
// while everything runs.
//
// Place: layer 6, assembly; app stands on it. Promise: a crash at any point of a replacement leaves a folder that works; several servers on
// one folder use the same keys within a second; of two replacements at a time one is refused. Enemies: a secret that no key opens, a key
// that is gone while somebody still needs it.
package rotation
