// Package tool is `fermi tools`: programs for environments that are installed once on a node, such as JupyterLab and VS Code.
//
// Place: layer 5, a part of the CLI; it speaks to no server. Promise: a tool is there whole or not at all, in a folder that root alone can change.
// Enemies: an installation that is cut off, a registry that is away.
package tool
