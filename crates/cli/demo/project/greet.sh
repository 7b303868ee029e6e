#!/bin/sh
# Greets somebody, or the world.
echo "Hello, ${1:-world}!"
