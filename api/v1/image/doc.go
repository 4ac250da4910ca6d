// Package image is the vocabulary of images: the catalogue that people choose from, jobs that build, look at, bring and save them, and what
// stands for the command that an image brings.
//
// Place: layer 1, over the common words. Promise: what is said of an image was read from its registry, by a job that is named beside it.
// Enemies: a name that leads somewhere else tomorrow, a claim that nobody checked.
package image
