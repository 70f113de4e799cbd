# The forward pass under automatic differentiation. fa.h has no backward pass yet, and says so rather than let an AD package
# differentiate through a call to C.
module LibFAChainRulesCoreExt

import ChainRulesCore, LibFA

const text = "gradients of attention are not there yet: fa.h has no backward pass; expected a call that is not differentiated, " *
             "as in ChainRulesCore.ignore_derivatives(() -> attention(q, k, v))"

no_pullback(_) = throw(LibFA.Unsupported(text))

ChainRulesCore.rrule(::typeof(LibFA.attention), q, k, v; keywords...) =
    LibFA.attention(q, k, v; keywords...), no_pullback

ChainRulesCore.rrule(::typeof(LibFA.dot_product_attention), q, k, v, bias...; keywords...) =
    LibFA.dot_product_attention(q, k, v, bias...; keywords...), no_pullback

end
