"""regard beside other libraries, and what each kind of layer costs, measured on the machine at hand."""
