// With a file in assembly, functions of a package may have their bodies elsewhere.
