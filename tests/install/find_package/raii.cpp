// The C++ face of the installed package: an op that ends itself, and errors that are thrown.
#include <fa.hpp>

int main() {
  fa::Desc desc;
  (void)desc;
}
