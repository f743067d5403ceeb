"""Settlement reports of payment service providers: Stripe, Adyen, PayPal."""
